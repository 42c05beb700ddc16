// Package keeper keeps a cluster's machines as wished: one process for each cluster makes the
// machines that a group lacks, removes those that it has too many or that are dead, and balances
// the load between them. The wishes are files in the cluster's folder, which kops writes.
//
// It must not know what the machines are for.
package keeper

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/balance"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// Network is what is wished of the cluster's network.
type Network struct {
	CIDR    string
	NAT     bool
	Routes  map[string]string
	Refused []string `json:",omitempty"`
}

// Group is what is wished of a group of machines.
type Group struct {
	Name            string
	Size            int
	Image           string // root folder
	MemoryMiB, CPUs int
	DiskGiB         int `json:",omitempty"`
	UserData        string
	Folders         []machine.Folder
	Labels          map[string]string
}

// Template identifies the desired properties of the group's machines. Machines that were made of
// another template continue as they are.
func (g Group) Template() string {
	g.Size = 0
	data, err := json.Marshal(g)
	if err != nil {
		panic(err) // plain text only: cannot happen
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// Balancer is what is wished of a load balancer.
type Balancer struct {
	Name   string
	Fronts []balance.Front
	// Groups are those whose machines serve.
	Groups []string
}

// Mirror is what is wished of a server of files and images.
type Mirror struct {
	Name   string
	Bundle string // folder
	Port   int
}

const suffix = ".json"

// NetworkFile holds the wished Network.
func NetworkFile(s site.Site) string { return s.Path("network" + suffix) }

// Wished reports whether a site's network is wished, as it is as long as the site is there.
func Wished(s site.Site) bool {
	_, err := os.Stat(NetworkFile(s))
	return err == nil
}

// File holds one wish of a part of the site: site.Groups, site.Balancers or site.Mirrors.
func File(s site.Site, part, name string) string { return s.Path(part, name+suffix) }

// TroubleFile says why a wish of a part of the site is not fulfilled; it is missing
// when all is well, and empty for a wish at which the keeper has yet to look.
func TroubleFile(s site.Site, part, name string) string { return s.Path(part, "."+name+".trouble") }

// remedyMark begins the line of a trouble file that says what helps.
const remedyMark = "\nremedy: "

// Trouble returns why a wish is not fulfilled: an error of class fault.Permanent
// with what helps, where that is known; of class fault.NotYet while the keeper
// has yet to look; nil when nothing is known against it.
func Trouble(s site.Site, part, name string) error {
	data, err := os.ReadFile(TroubleFile(s, part, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read what is in the way of %s of the %s: %w", name, part, err)
	case len(data) == 0:
		return fault.New(fault.NotYet, "the keeper has not yet looked at %s of the %s; see %s", name, part, LogFile(s))
	}
	text, remedy, _ := strings.Cut(strings.TrimSpace(string(data)), remedyMark)
	return fault.Wrap(fault.Permanent, errors.New(text), remedy)
}

// tell writes what stands between a wish and its fulfilment, or that nothing does.
func tell(s site.Site, part, name string, trouble error) error {
	file := TroubleFile(s, part, name)
	if trouble == nil {
		return Remove(file)
	}
	text := trouble.Error()
	if remedy := fault.Remedy(trouble); remedy != "" {
		text += remedyMark + remedy
	}
	if old, err := os.ReadFile(file); err == nil && string(old) == text+"\n" {
		return nil // the keeper looks often
	}
	return site.Write(file, []byte(text+"\n"), 0o600)
}

// Groups reads the wished groups.
func Groups(s site.Site) ([]Group, error) { return wishes[Group](s, site.Groups) }

// Balancers reads the wished load balancers.
func Balancers(s site.Site) ([]Balancer, error) { return wishes[Balancer](s, site.Balancers) }

// Mirrors reads the wished mirrors.
func Mirrors(s site.Site) ([]Mirror, error) { return wishes[Mirror](s, site.Mirrors) }

func wishes[T any](s site.Site, part string) ([]T, error) {
	names, err := site.List(s.Path(part))
	if err != nil {
		return nil, fmt.Errorf("read what is wished of %s: %w", s.Cluster, err)
	}
	var out []T
	for _, n := range names {
		if !strings.HasSuffix(n, suffix) {
			continue
		}
		var w T
		ok, err := site.ReadJSON(s.Path(part, n), &w)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, w)
		}
	}
	return out, nil
}

// Remove removes a file; it is not an error if it does not exist.
func Remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
