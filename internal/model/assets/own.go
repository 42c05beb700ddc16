package assets

import (
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
)

// Own is where machines get kops' own programs from, and the names of their images. The zero value
// names them by their version, and has no digests.
type Own struct {
	// Programs are the programs that are delivered with the cluster; nil if none were found.
	Programs *programs.Index
	// Instead are images of the user's own, by the program that they run.
	Instead map[string]string
	// Base is the URL of the user's copy of all programs, which machines read instead of
	// the cluster's store; "" if there is none.
	Base string
	// Unfound is why there are no Programs, and Remedy is what helps.
	Unfound, Remedy string
}

// ImageName returns the name of a program's image, before mirrors.
func (o Own) ImageName(program, version string) string {
	if own := o.Instead[program]; own != "" {
		return own
	}
	if o.Programs != nil && o.Programs.Images[program].Name != "" {
		return o.Programs.Images[program].Name
	}
	return programs.ImageName(program, version)
}

// Imported reports whether machines import the image of a program, instead of pulling it from a
// registry.
func (o Own) Imported(program string, m Mirrors) bool {
	return o.Instead[program] == "" && !m.Images()
}

// Nodeup returns the program that a machine's boot script fetches; the digest is the uncompressed
// program's, although copies may be compressed with a suffix .xz or .gz. store is the URL at which
// the machine reads the cluster's programs.
func (o Own) Nodeup(version string, arch download.Arch, store string, m Mirrors, h Hashes) download.File {
	f := download.File{Public: programs.Public(version, arch)}
	known := programs.File{}
	if o.Programs != nil {
		known = o.Programs.Nodeup[arch]
	}
	if f.SHA256 = known.Program; f.SHA256 == "" {
		f.SHA256, _ = h.withPublished()(f.Public)
	}
	if m.Files() {
		f.URLs = append(f.URLs, m.URL(f.Public))
	}
	switch {
	case known.Program != "":
		f.URLs = append(f.URLs, o.url(known, store))
	case len(f.URLs) == 0: // the programs were not found, which is reported elsewhere
		f.URLs = []string{store + "/" + programs.File{Path: "nodeup", SHA256: f.SHA256}.Key()}
	}
	return f
}

// Archives returns the names of the images of programs that machines of an architecture import, and
// the files that they fetch for them.
func (o Own) Archives(names []string, arch download.Arch, store string, m Mirrors) (images []string, files []download.File) {
	if o.Programs == nil {
		return nil, nil
	}
	for _, n := range names {
		i := o.Programs.Images[n]
		f, ok := i.Archives[arch]
		if !ok || !o.Imported(n, m) {
			continue
		}
		images, files = append(images, i.Name), append(files, download.File{URLs: []string{o.url(f, store)}, SHA256: f.SHA256})
	}
	return images, files
}

func (o Own) url(f programs.File, store string) string {
	if o.Base != "" {
		return strings.TrimSuffix(o.Base, "/") + "/" + f.Path
	}
	return store + "/" + f.Key()
}
