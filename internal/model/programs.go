package model

import (
	"fmt"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// programs declares the files of kops' own programs that machines fetch from the cluster's store,
// or that control planes pass on from there.
func (b *builder) programs() error {
	if !b.deliversPrograms() || !b.Deliver {
		return nil
	}
	seen := map[string]bool{}
	add := func(f programs.File) {
		if f.SHA256 != "" && !seen[f.Key()] {
			seen[f.Key()] = true
			b.nodes = append(b.nodes, managedfile.ProgramNode(f))
		}
	}
	for _, g := range b.Groups {
		if g.IsBastion() {
			continue
		}
		for _, a := range b.archesOf(g) {
			add(b.Own.Programs.Nodeup[a])
			if !g.HasAPIServer() {
				continue
			}
			for _, n := range b.ownPrograms(g) {
				if b.Own.Imported(n, b.mirrors()) {
					add(b.Own.Programs.Images[n].Archives[a])
				}
			}
		}
	}
	return nil
}

// deliversPrograms reports whether kops' own programs are delivered with the cluster: there is an
// archive of them, and the machines have neither a bundle nor a user's copy to read.
func (in Input) deliversPrograms() bool {
	return in.Own.Programs != nil && in.Own.Base == "" && in.cloudFacts().Bundle == ""
}

// withoutPrograms reports the machines that get none of kops' own programs, and so do not join.
func (in Input) withoutPrograms() diag.List {
	if in.cloudFacts().Bundle != "" || in.mirrors().Files() && in.mirrors().Images() {
		return nil
	}
	switch {
	case in.Own.Programs == nil && in.Own.Unfound == "": // they were not searched for
		return nil
	case in.Own.Programs == nil:
		return diag.List{{Rule: "programs-not-found", Warning: !in.lacksNodeupDigest(),
			Message: "machines that start now would not join: " + in.Own.Unfound, Remedy: in.Own.Remedy}}
	}
	var out diag.List
	for _, g := range in.Groups {
		for _, a := range in.archesOf(g) {
			if _, ok := in.Own.Programs.Nodeup[a]; !ok && !g.IsBastion() {
				out = append(out, diag.Finding{Rule: "programs-not-found", Warning: true, Object: "instance group " + g.Name,
					Message: fmt.Sprintf("its machines would not join, because the archive of kops' own programs has no programs for %s", a), Remedy: "use an archive that has them"})
			}
		}
	}
	return out
}

// lacksNodeupDigest reports whether not even the digest of nodeup is known, as no programs are
// delivered with the cluster, and there are no copies of the user's.
func (in Input) lacksNodeupDigest() bool {
	if in.Own.Unfound == "" || in.mirrors().Files() || in.AllowUnverified {
		return false
	}
	return slices.ContainsFunc(in.arches(), func(a download.Arch) bool {
		return in.Own.Nodeup(in.Version, a, "", in.mirrors(), in.hashes()).SHA256 == ""
	})
}

// archesOf lists the architectures that the machines of a group may have: the architecture of
// their image, if known.
func (in Input) archesOf(g *api.InstanceGroup) []download.Arch {
	image, ok := in.cloudFacts().Image(g.Spec.Image)
	if arch := map[string]download.Arch{facts.ArchX86: download.AMD64, facts.ArchARM: download.ARM64}[image.Architecture]; ok && arch != "" {
		return []download.Arch{arch}
	}
	return in.arches()
}

// ownPrograms lists kops' own programs that run in containers on the machines of a group with an
// API server.
func (in Input) ownPrograms(g *api.InstanceGroup) []string {
	out := []string{programs.Healthcheck}
	if !g.IsControlPlane() {
		return out
	}
	out = append(out, programs.Channels, programs.EtcdManager)
	for _, n := range []string{programs.Controller, programs.DNSController} {
		name := in.Own.ImageName(n, in.Version)
		if slices.ContainsFunc(in.AddonImages(), func(i addons.Image) bool { return i.Public == name }) {
			out = append(out, n)
		}
	}
	return out
}

// ProgramAddresses returns the addresses of kops' own programs among the files of a cluster.
func ProgramAddresses(nodes []resource.Node) []resource.Address {
	var out []resource.Address
	for _, n := range nodes {
		if n.Address.Kind == managedfile.OwnProgram.Name {
			out = append(out, n.Address)
		}
	}
	return out
}
