// Package servers is for clouds that have only single machines and no groups of them. An update of the
// cluster starts each missing machine, and records in its labels what it was made of. Machines that
// would be made of something else now are marked, and stay until a roll ends them; the update that
// follows starts their successors.
//
// A cloud provides a Fleet: how it lists, starts, labels and ends a server. From these follow the
// resource kind of its groups, the lists of machines and the functions of a roll.
//
// It must not know any platform.
package servers

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/resource"
)

// Labels in which a fleet records what a server was made of. They are valid labels of Kubernetes, and
// of clouds that take the same.
const (
	// userDataLabel has the digest of the user data, in the form that kOps writes.
	userDataLabel = "kops.k8s.io/instance-userdata"
	// configLabel has the hash of the node configuration in the user data.
	configLabel = "kops.k8s.io/instance-config"
	// detachedLabel means that the group no longer counts the server.
	detachedLabel = "kops.k8s.io/detached"
	// wantedPrefix begins the labels of a marked server with what it would be made of now.
	wantedPrefix = "wanted.kops.k8s.io/"
	// wantedUserData and wantedConfig are such labels, for userDataLabel and configLabel.
	wantedUserData, wantedConfig = wantedPrefix + "userdata", wantedPrefix + "config"
)

// Server is one machine as its cloud lists it.
type Server struct {
	// ID is the cloud's, and never given to another server. Name is the name of its node.
	ID, Name string
	// Group is the instance group; empty if the server belongs to none.
	Group string
	// Labels are all of its labels.
	Labels map[string]string
	// Made is what it was made of, by field of the spec, such as spec.machineType.
	Made map[string]string
	// State is the cloud's term. Starting, Running and Ending are what it means; a server that is none
	// of them has stopped, but is still a member of its group.
	State                     string
	Starting, Running, Ending bool

	Addresses []string
	Zone      string
	Created   time.Time
}

// Group is the desired state of an instance group's servers, or its observed state.
type Group struct {
	Cluster, Name string
	// Least and Most bound the number of servers: an autoscaler may start more than Least. In an
	// observed group, both are the number of servers that it counts.
	Least, Most int
	// Labels are the labels of each server, except those in which the fleet keeps its records.
	Labels map[string]string
	// Made is what new servers are made of, by field of the spec. The values are valid as those of
	// labels.
	Made     map[string]string
	UserData resource.Content
}

// Launch is what a new server needs besides its group.
type Launch struct {
	// Name is unique among all servers.
	Name     string
	Labels   map[string]string
	UserData string
}

// Fleet says how a cloud's servers are reached with a client C, and how its resource kind, a group of
// servers, is declared with a struct T.
type Fleet[T, C any] struct {
	// List lists the servers of a cluster or, unless group is empty, of one of its groups. Servers
	// that have ended may be missing.
	List func(ctx context.Context, c C, cluster, group string) ([]Server, error)
	// Start starts one server with its labels. If a server with that name exists already, it
	// returns an error of class fault.Conflict.
	Start func(ctx context.Context, c C, of *T, l Launch) error
	// Label replaces the labels of a server.
	Label func(ctx context.Context, c C, s Server, labels map[string]string) error
	// End ends a server, and returns when it holds nothing that others wait for, such as a disk. It
	// is not an error if the server is gone.
	End func(ctx context.Context, c C, s Server) error
	// Group returns what a declared object says of its servers; Observed is the reverse.
	Group    func(*T) Group
	Observed func(Group) *T
	// Name returns the name of a new server of a group. taken has the names of the group's servers,
	// with those that are being started. nil: the group's name and a random number, so that no server
	// has the name of an earlier one: a new server is a new node.
	Name func(group string, taken []string) string
}

// encodeDigest returns a label value with the SHA-256 of a text.
func encodeDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256." + base64.RawURLEncoding.EncodeToString(sum[:])
}

// decodeDigest returns the hexadecimal SHA-256 in a label value; "" if there is none.
func decodeDigest(label string) string {
	text, ok := strings.CutPrefix(label, "sha256.")
	sum, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return ""
	}
	return hex.EncodeToString(sum)
}

// encodeHash returns a label value with the base64 of a hash; decodeHash is the reverse.
func encodeHash(hash string) string {
	if hash == "" {
		return ""
	}
	return "h" + strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(hash)
}

func decodeHash(label string) string {
	text, ok := strings.CutPrefix(label, "h")
	sum, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(sum)
}

// record is what a server is, or would be, made of.
type record struct {
	made             map[string]string
	userData, config string // as in labels
}

// made returns what a server was made of.
func (s Server) made() record {
	return record{s.Made, s.Labels[userDataLabel], s.Labels[configLabel]}
}

// wanted returns what a server would have been made of at the last update: what it was made of, unless
// it is marked.
func (s Server) wanted() record {
	r := s.made()
	if !s.IsOutdated() {
		return r
	}
	r.made = maps.Clone(r.made)
	for key, value := range s.Labels {
		if field, ok := strings.CutPrefix(key, wantedPrefix+"spec."); ok {
			r.made["spec."+field] = value
		}
	}
	r.userData, r.config = s.Labels[wantedUserData], s.Labels[wantedConfig]
	return r
}

// IsOutdated reports whether a server is marked.
func (s Server) IsOutdated() bool {
	_, is := s.Labels[labels.NeedsUpdate]
	return is
}

// IsDetached reports whether its group no longer counts a server.
func (s Server) IsDetached() bool {
	_, is := s.Labels[detachedLabel]
	return is
}

// isCounted reports whether a server is one of those that its group should have.
func (s Server) isCounted() bool { return !s.Ending && !s.IsDetached() }

// labelsFor returns the labels of a server of a group after an update that would make it of r: it is
// marked if it was made of something else.
func (s Server) labelsFor(own map[string]string, r record) map[string]string {
	out := maps.Clone(own)
	if out == nil {
		out = map[string]string{}
	}
	have := s.made()
	for _, key := range []string{userDataLabel, configLabel, detachedLabel} {
		if value, ok := s.Labels[key]; ok {
			out[key] = value
		}
	}
	if have.userData == r.userData && maps.Equal(have.made, r.made) {
		return out
	}
	out[labels.NeedsUpdate], out[wantedUserData], out[wantedConfig] = "", r.userData, r.config
	for field, value := range r.made {
		if have.made[field] != value {
			out[wantedPrefix+field] = value
		}
	}
	return out
}

// ownLabels returns the labels of a server without the fleet's records.
func ownLabels(all map[string]string) map[string]string {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return slices.Contains([]string{userDataLabel, configLabel, detachedLabel, labels.NeedsUpdate}, key) || strings.HasPrefix(key, wantedPrefix)
	})
	return out
}
