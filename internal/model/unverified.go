package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/spec/diag"
)

// checkDigests rejects files with unknown digests, which machines would run as root with any content.
// The user may allow it, but not if the network decides what is downloaded.
func (in Input) checkDigests(files []download.File) diag.List {
	if len(files) == 0 {
		return nil
	}
	if found := in.checkTLS(files); len(found) > 0 {
		return found
	}
	if in.AllowUnverified {
		return diag.List{{Rule: "unverified-file", Warning: true,
			Message: "machines run unverified files as root, as you allowed: " + places(files)}}
	}
	out := diag.List{{Rule: "unknown-digest", Message: fmt.Sprintf("cannot verify %d files that machines run as root: their SHA-256 is unknown", len(files)),
		Remedy: "state it under fileHashes in a facts file (option:Facts), put FILE.sha256 next to each file in an https:// repository " +
			"(spec.assets.fileRepository), or accept the files unverified with option:AllowUnverified"}}
	if len(files) == 1 {
		out[0].Message = "cannot verify a file that machines run as root: its SHA-256 is unknown"
	}
	for _, f := range files {
		line := diag.Finding{Rule: "unknown-digest", Message: "  " + f.Public}
		if why := in.Unfound[f.Public]; why != "" {
			line.Message += ": " + why
		}
		out = append(out, line)
	}
	return out
}

// checkTLS rejects places whose responses can be forged on the network.
func (in Input) checkTLS(files []download.File) diag.List {
	var plain []download.File
	for _, f := range files {
		if strings.HasPrefix(strings.ToLower(f.URLs[0]), "http://") {
			plain = append(plain, f)
		}
	}
	if len(plain) == 0 {
		return nil
	}
	found := diag.Finding{Rule: "unverified-without-tls", Path: "spec.assets.fileRepository",
		Message: "has no TLS, and the SHA-256 of files that machines run as root is not known: " + places(plain),
		Remedy:  "use https://, or state the SHA-256 under fileHashes in a facts file (option:Facts)"}
	if in.mirrors().Files() {
		found.Value = *in.spec().Assets.FileRepository
	} else {
		found.Path, found.Value = "spec.kubernetesVersion", in.spec().KubernetesVersion
	}
	return diag.List{found}
}

// places lists files by their publishers' URLs, which are also their names in facts.
func places(files []download.File) string {
	var out []string
	for _, f := range files {
		out = append(out, f.Public)
	}
	return strings.Join(out, ", ")
}

// checkSigned rejects files that are missing in the signed index of the cluster's own files, as
// machines do not accept them.
func (in Input) checkSigned() (diag.List, error) {
	if in.Signed == nil {
		return nil, nil
	}
	var lacks []string
	for _, g := range in.Groups {
		for _, arch := range in.archesOf(g) {
			files, err := in.files(g, arch)
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				if isConfigured(g) && !in.Signed[f.SHA256] && !slices.Contains(lacks, f.Public) {
					lacks = append(lacks, f.Public)
				}
			}
		}
	}
	if len(lacks) == 0 {
		return nil, nil
	}
	return diag.List{{Rule: "unsigned-file", Path: "spec.assets.trustedKeys", Message: "the signed index of " + in.mirrors().Repository() +
		" lacks files that machines would not take: " + strings.Join(lacks, ", "),
		Remedy: "add them with kops bundle create --name " + in.Cluster.Name + ", sign it with kops bundle sign, and push it again"}}, nil
}
