package world

import (
	"strconv"
	"strings"

	"kops.local/kops/finding"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/redact"
)

// Check warns about environment variables whose values Config ignores because they have the wrong form.
func Check(env func(string) string) finding.List {
	var out finding.List
	ignored := func(name, value, remedy string) {
		out = append(out, finding.Finding{Path: name, Value: value, Rule: "environment", Message: "is ignored", Remedy: remedy, Warning: true})
	}
	if arch := env("KOPS_ARCH"); arch != "" && architecture(Options{Env: env}) == "" {
		ignored("KOPS_ARCH", arch, "write amd64 or arm64")
	}
	if size := env("KOPS_RSA_PRIVATE_KEY_SIZE"); size != "" {
		if _, err := strconv.Atoi(size); err != nil {
			ignored("KOPS_RSA_PRIVATE_KEY_SIZE", size, "write a number of bits, such as 4096")
		}
	}
	if hashes := env(FileHashes); hashes != "" {
		for entry := range strings.SplitSeq(hashes, ",") {
			if sum, _, ok := strings.Cut(entry, "@"); !ok || !download.IsSHA256(sum) {
				ignored(FileHashes, entry, "write SHA256@URL, with the 64 hexadecimal digits of the file's SHA-256")
			}
		}
	}
	if u := env(pluginsURL); u != "" && plugins(env) == "" {
		ignored(pluginsURL, redact.URLs(u), "write the URL of an archive whose name begins with cni-plugins")
	}
	if sum := env(pluginsHash); sum != "" && pluginsDigest(env) == "" {
		ignored(pluginsHash, sum, "write sha256: and the 64 hexadecimal digits of the archive's SHA-256")
	}
	return out
}
