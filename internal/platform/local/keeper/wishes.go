// Package keeper keeps a cluster's machines in their desired state: one process for each cluster
// creates a group's missing machines, removes those that are surplus or dead, and balances the
// load between them. The desired state is in files in the cluster's folder, which kops writes.
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

// Network is the desired state of the cluster's network.
type Network struct {
	CIDR    string
	NAT     bool
	Routes  map[string]string
	Refused []string `json:",omitempty"`
}

// Group is the desired state of a group of machines.
type Group struct {
	Name            string
	Size            int
	Image           string // root folder
	MemoryMiB, CPUs int
	DiskGiB         int `json:",omitempty"`
	MinDiskGiB      int `json:",omitempty"`
	UserData        string
	Folders         []machine.Folder
	Labels          map[string]string
}

// Template identifies the desired properties of the group's machines. Machines created from
// another template keep running as they are.
func (g Group) Template() string {
	g.Size = 0
	data, err := json.Marshal(g)
	if err != nil {
		panic(err) // plain text only: cannot happen
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// Balancer is the desired state of a load balancer.
type Balancer struct {
	Name   string
	Fronts []balance.Front
	// Groups are the groups whose machines serve.
	Groups []string
}

// Mirror is the desired state of a server of files and images.
type Mirror struct {
	Name   string
	Bundle string // folder
	Port   int
}

const suffix = ".json"

// NetworkFile returns the file of the desired Network.
func NetworkFile(s site.Site) string { return s.Path("network" + suffix) }

// IsWanted reports whether a site should have a network, which is true as long as the site exists.
func IsWanted(s site.Site) bool {
	_, err := os.Stat(NetworkFile(s))
	return err == nil
}

// File returns the file of one desired object in a part of the site: site.Groups,
// site.Balancers or site.Mirrors.
func File(s site.Site, part, name string) string { return s.Path(part, name+suffix) }

// TroubleFile returns the file that says why a desired object is not in place; it does not exist
// when all is well, and is empty for an object that the keeper has yet to check.
func TroubleFile(s site.Site, part, name string) string { return s.Path(part, "."+name+".trouble") }

// remedyMark introduces the line of a trouble file that contains the remedy.
const remedyMark = "\nremedy: "

// Trouble returns why a desired object is not in place: an error of class
// fault.Permanent, with the remedy if one is known; of class fault.NotYet while the
// keeper has yet to check it; nil when there is no known trouble.
func Trouble(s site.Site, part, name string) error {
	data, err := os.ReadFile(TroubleFile(s, part, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read what blocks %s of the %s: %w", name, part, err)
	case len(data) == 0:
		return fault.New(fault.NotYet, "%s of the %s has not been checked yet; see %s", name, part, LogFile(s))
	}
	text, remedy, _ := strings.Cut(strings.TrimSpace(string(data)), remedyMark)
	return fault.Wrap(fault.Permanent, errors.New(text), remedy)
}

// writeTrouble writes a trouble file, or removes it if trouble is nil.
func writeTrouble(s site.Site, part, name string, trouble error) error {
	file := TroubleFile(s, part, name)
	if trouble == nil {
		return Remove(file)
	}
	text := trouble.Error()
	if remedy := fault.Remedy(trouble); remedy != "" {
		text += remedyMark + remedy
	}
	if old, err := os.ReadFile(file); err == nil && string(old) == text+"\n" {
		return nil // unchanged: the keeper checks often
	}
	return site.Write(file, []byte(text+"\n"), 0o600)
}

// Groups reads the desired groups.
func Groups(s site.Site) ([]Group, error) { return readDesired[Group](s, site.Groups) }

// Balancers reads the desired load balancers.
func Balancers(s site.Site) ([]Balancer, error) { return readDesired[Balancer](s, site.Balancers) }

// Mirrors reads the desired mirrors.
func Mirrors(s site.Site) ([]Mirror, error) { return readDesired[Mirror](s, site.Mirrors) }

func readDesired[T any](s site.Site, part string) ([]T, error) {
	names, err := site.List(s.Path(part))
	if err != nil {
		return nil, fmt.Errorf("read the desired state of %s: %w", s.Cluster, err)
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
