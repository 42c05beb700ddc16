package terraform

import (
	"bytes"
	"regexp"
	"slices"
)

// clusterName matches the local value that every main file has, and a user's own file hardly ever.
var clusterName = regexp.MustCompile(`(?m)^\s*cluster_name\s*=`)

// dataReference matches a main file's reference to a file under data/, and resourceType its
// declaration of a resource.
var (
	dataReference = regexp.MustCompile(`"\$\{path\.module\}/(data/[^"/\\$%]+)"`)
	resourceType  = regexp.MustCompile(`(?m)^(?:resource|data) "([a-z0-9_]+)" `)
)

// IsMainFile reports whether a main file was written by kops or kOps, and not by a user.
func IsMainFile(text []byte) bool { return clusterName.Match(text) }

// DataFiles lists the files under data/ that a main file reads and that belong to its
// resources by their names, sorted. These are the files written together with that main
// file; a user's own files are never included.
func DataFiles(main []byte) []string {
	var out []string
	types := resourceType.FindAllSubmatch(main, -1)
	for _, m := range dataReference.FindAllSubmatch(main, -1) {
		if slices.ContainsFunc(types, func(t [][]byte) bool { return bytes.HasPrefix(m[1], []byte("data/"+string(t[1])+"_")) }) {
			out = append(out, string(m[1]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
