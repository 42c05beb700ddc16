package node

import (
	"cmp"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// Renewal returns the part of a machine's graph with the certificates to reissue, and the
// resources that depend on them because they read them only at startup. Certificates with
// such a dependent take turns, one per run, so that a machine's components are not all
// restarted at once; urgent certificates do not wait for their turn.
func Renewal(g *graph.Graph, need func(*host.Certificate) host.Need) (*graph.Graph, error) {
	out, issued := &graph.Graph{}, reissueCheck(g, need)
	taken := func(a resource.Address) bool { _, ok := out.Get(a); return ok }
	for n := range g.All() {
		if c, is := n.Want.(*host.Certificate); is && !issued(c) || !is && !slices.ContainsFunc(n.Kind.Schema().Refs(n.Want), taken) {
			continue
		}
		n.After = slices.DeleteFunc(slices.Clone(n.After), func(a resource.Address) bool { return !taken(a) })
		if err := out.Add(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reissueCheck returns a function that reports whether a certificate is reissued this time.
func reissueCheck(g *graph.Graph, need func(*host.Certificate) host.Need) func(*host.Certificate) bool {
	followed := map[string]bool{}
	for n := range g.All() {
		for _, a := range n.Kind.Schema().Refs(n.Want) {
			followed[a.Name] = followed[a.Name] || a.Kind == host.Certificates.Name
		}
	}
	follows := func(c *host.Certificate) bool { return followed[c.Path] || readerOf(c.Path) != "" }
	turn, urgent := "", false
	for n := range g.All() {
		c, is := n.Want.(*host.Certificate)
		if !is || !follows(c) {
			continue
		}
		switch need(c) {
		case host.Urgent: // it restarts its dependent, which is enough for one run
			urgent = true
		case host.Due:
			turn = cmp.Or(turn, c.Path)
		}
	}
	return func(c *host.Certificate) bool {
		n := need(c)
		return n == host.Urgent || n == host.Due && (!follows(c) || !urgent && c.Path == turn)
	}
}

// routerKubeconfig is the file with which kube-router calls the API, and authenticatorCertificate
// the certificate that the AWS IAM authenticator serves with, in the folder of keys.
const (
	routerKubeconfig         = "/var/lib/kube-router/kubeconfig"
	authenticatorCertificate = "/aws-iam-authenticator/cert.pem"
)

// readerOf returns the add-on's container that reads a certificate only at startup, or
// "". All other add-ons notice by themselves that a certificate has changed.
func readerOf(path string) string {
	switch {
	case path == routerKubeconfig:
		return "kube-router"
	case strings.HasSuffix(path, authenticatorCertificate):
		return "aws-iam-authenticator"
	}
	return ""
}

// Readers returns the add-ons' containers that read one of the machine's certificates
// only at startup.
func Readers(g *graph.Graph) (*graph.Graph, error) {
	out := &graph.Graph{}
	for n := range g.All() {
		c, is := n.Want.(*host.Certificate)
		if !is || readerOf(c.Path) == "" {
			continue
		}
		r := host.Reader{Container: readerOf(c.Path), Path: c.Path, Current: true}
		if err := out.Add(host.Readers.New(r.Container, r)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
