// Command image writes the container image of kops as an OCI archive, without a container
// runtime: an index with one image per architecture. It is reproducible.
//
//	image -o FILE -version VERSION SHARED ARCH=FOLDER...
//
// SHARED is a folder with the files of all images. It becomes a layer that is stored
// once; each FOLDER, with the files of one architecture, is a second layer.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the UID and GID that kops runs as.
const user = 65532

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	out := flag.String("o", "", "the archive to write")
	version := flag.String("version", "", "the version of kops, which is the tag")
	flag.Parse()
	if *out == "" || *version == "" || flag.NArg() < 2 {
		log.Fatal("usage: image -o FILE -version VERSION SHARED ARCH=FOLDER...")
	}
	if err := run(*out, *version, flag.Arg(0), flag.Args()[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(out, version, shared string, arches []string) error {
	base, err := baseLayer(shared)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, a := range arches {
		arch, folder, _ := strings.Cut(a, "=")
		program, err := layer(func(w *tar.Writer) error { return addFolder(w, folder) })
		if err != nil {
			return err
		}
		image, err := imageOf(version, arch, base, program)
		if err != nil {
			return fmt.Errorf("the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	return writeArchive(out, version, index)
}

// imageOf returns the image of one architecture.
func imageOf(version, arch string, layers ...v1.Layer) (v1.Image, error) {
	i := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, l := range layers {
		var err error
		if i, err = mutate.Append(i, mutate.Addendum{Layer: l, MediaType: types.OCILayer}); err != nil {
			return nil, err
		}
	}
	c, err := i.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.Created, c.History = v1.Time{Time: time.Unix(0, 0).UTC()}, nil
	c.OS, c.Architecture = "linux", arch
	c.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/kops"}, User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/home/kops",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/kops", "USER=kops"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "kops", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(i, c)
}

// baseLayer contains the environment of kops: a user with a home, a folder for temporary files,
// and the certificate authorities of public servers.
func baseLayer(shared string) (v1.Layer, error) {
	var roots bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint != nil {
			continue // it is only trusted for some certificates, which this file cannot express
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}); err != nil {
			return nil, err
		}
	}
	return layer(func(w *tar.Writer) error {
		return errors.Join(
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}),
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "home/kops/", Mode: 0o755, Uid: user, Gid: user}),
			addText(w, "etc/passwd", fmt.Appendf(nil, "root:x:0:0::/:/sbin/nologin\nkops:x:%d:%d::/home/kops:/sbin/nologin\n", user, user)),
			addText(w, "etc/group", fmt.Appendf(nil, "root:x:0:\nkops:x:%d:\n", user)),
			addText(w, "etc/ssl/certs/ca-certificates.crt", roots.Bytes()),
			addFolder(w, shared),
		)
	})
}

// layer returns the files that write writes as an image layer.
func layer(write func(*tar.Writer) error) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(write(w), w.Close()); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}

func addText(w *tar.Writer, name string, text []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

// addFolder adds the files and links below a folder, owned by root.
func addFolder(w *tar.Writer, folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777})
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}); err != nil {
			return err
		}
		_, err = io.Copy(w, f)
		return err
	})
}

// writeArchive writes an index as the tar file of an OCI image layout.
func writeArchive(out, version string, index v1.ImageIndex) error {
	dir, err := os.MkdirTemp(filepath.Dir(out), ".image-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	tag := strings.ReplaceAll(version, "+", "-") // which is not allowed in a tag
	if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": "kops:" + tag})); err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	return errors.Join(addFolder(w, dir), w.Close(), f.Close())
}
