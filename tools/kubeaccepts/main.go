// Command kubeaccepts lists the flags, feature gates and admission plugins that minor versions of Kubernetes
// accept, read from the source of their Go modules.
//
//	kubeaccepts 1.32.13 1.33.13 … >../../internal/spec/accepted/accepted.tsv
//
// A line has the kind of the names, the minor versions that accept them, and the names. A flag is
// listed for a program if a package that provides options of the program registers it. That is
// sometimes one flag too many, and never one too few.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kubeaccepts VERSION…, such as 1.36.3: the newest release of each minor version, oldest first")
		os.Exit(1)
	}
	if err := list(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// name is a name and its kind, such as a flag of a program.
type name struct{ kind, text string }

// list prints what the releases accept.
func list(releases []string) error {
	accepted := map[name][]string{} // minor versions
	for _, release := range releases {
		src, err := download(release)
		if err != nil {
			return err
		}
		found, err := src.names()
		if err != nil {
			return err
		}
		minor := release[:strings.LastIndexByte(release, '.')]
		for n := range found {
			accepted[n] = append(accepted[n], minor)
		}
	}
	lines := map[name][]string{} // names by kind and versions
	for n, minors := range accepted {
		l := name{n.kind, strings.Join(minors, ",")}
		lines[l] = append(lines[l], n.text)
	}
	fmt.Printf("# What minor versions of Kubernetes accept, by tools/kubeaccepts from %s.\n", strings.Join(releases, ", "))
	for _, l := range slices.SortedFunc(maps.Keys(lines), func(a, b name) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.text, b.text)) }) {
		slices.Sort(lines[l])
		fmt.Printf("%s\t%s\t%s\n", l.kind, l.text, strings.Join(lines[l], " "))
	}
	return nil
}

// source is the unpacked source of a release: folders by module.
type source map[string]string

// staging are the modules in which parts of Kubernetes are published separately from k8s.io/kubernetes.
var staging = []string{"apiextensions-apiserver", "apiserver", "client-go", "cloud-provider", "component-base", "controller-manager", "kube-aggregator"}

// download fetches the modules of a release.
func download(release string) (source, error) {
	wanted := []string{"k8s.io/kubernetes@v" + release}
	for _, m := range staging {
		wanted = append(wanted, "k8s.io/"+m+"@v0."+strings.SplitN(release, ".", 2)[1])
	}
	cmd := exec.Command("go", append([]string{"mod", "download", "-json"}, wanted...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("download the modules of %s: %w", release, err)
	}
	src := source{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var m struct{ Path, Dir string }
		if err := d.Decode(&m); err != nil {
			return nil, err
		}
		src[strings.TrimPrefix(m.Path, "k8s.io/")] = m.Dir
	}
	return src, nil
}

// folder returns the location of a path of the source, such as apiserver/pkg/server.
func (s source) folder(path string) string {
	module, rest, _ := strings.Cut(path, "/")
	return filepath.Join(s[module], rest)
}
