package managedfile

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

// File is a file that an update rewrites when its content has changed.
type File struct {
	// Store is the bucket, or the URL of a store without buckets.
	Store   string           `res:"forbid" tf:"bucket"`
	Key     string           `res:"forbid" tf:"key"`
	Content resource.Content `tf:"content,file,zero"`
	// Provider is the alias of the Terraform provider for the bucket's account.
	Provider string `res:"writeonly" tf:"provider,raw"`
	// Encryption is the encryption that the bucket should use for the object.
	Encryption string `res:"writeonly" tf:"server_side_encryption"`
	// ACL is "public-read" for a file that everyone may read, or empty.
	ACL string `res:"writeonly" tf:"acl"`
}

// secret matches a Kubernetes Secret among the documents of a text, YAML or JSON.
var secret = regexp.MustCompile(`(?m)"kind"\s*:\s*"Secret"|^(- )?\s*kind:\s*["']?Secret["']?\s*$`)

// Text returns the content of a file. If it includes a Kubernetes Secret, it is never shown.
func Text(s string) resource.Content { return Content(resource.Lit(s)) }

// Content is like Text, for a text that may not be known yet.
func Content(v resource.Value) resource.Content {
	if secret.MatchString(v.String()) {
		return resource.Text(v).Hide()
	}
	return resource.Text(v)
}

// publicRead is the canned ACL of a file that everyone may read.
const publicRead = "public-read"

// Files is the client of the kinds of File.
type Files struct {
	Areas []Area
	// Wanted has the digests of desired contents, by the kind's key. A file whose listed digest
	// differs is read before it is considered different. See WantedDigests.
	Wanted map[string]string
}

// StoreFile is a file in a store that no other tool can write.
var StoreFile = resource.Kind[File, Files]{
	Name: "store_file", API: "store", Direct: true, Tasks: []string{"ManagedFile"},
	Key: fileKey, List: listFiles, Create: writeFile, Delete: removeFile,
	Update: []resource.Setter[File, Files]{{Fields: []string{"Content"}, Set: rewrite}},
}

// Bucket declares files in a bucket that other tools can write, too.
type Bucket struct {
	Kind resource.Kind[File, Files]
	// Provider and Encryption are the provider and encryption of each File.
	Provider, Encryption string
}

// NewBucket returns a bucket whose files have a kind with the given name, within the limits of an
// API.
func NewBucket(kind, api string) *Bucket {
	b := &Bucket{Kind: StoreFile}
	b.Kind.Name, b.Kind.API, b.Kind.Direct = kind, api, false
	return b
}

// readers specifies who may read a file, if Terraform has a resource of its own for that.
type readers struct {
	Bucket   string         `tf:"bucket"`
	Object   resource.Value `tf:"object"`
	Roles    []string       `tf:"role_entity"`
	Provider string         `tf:"provider,raw"`
}

// DeclareReaders adds a Terraform resource of a kind for each file that everyone may read.
func (b *Bucket) DeclareReaders(kind string) {
	k := resource.Kind[readers, Files]{Name: kind, API: b.Kind.API}
	b.Kind.Companions = func(a resource.Address, f *File) []resource.Node {
		if f.ACL != publicRead {
			return nil
		}
		return []resource.Node{k.New(a.Name, readers{f.Store, resource.Out(a, "output_name"), []string{"READER:allUsers"}, f.Provider})}
	}
}

// Buckets are buckets by the scheme of their URLs. Files in stores with other schemes are
// StoreFiles.
type Buckets map[string]*Bucket

// Kinds lists the kinds of managed files: files that no other tool can write, and files in
// buckets.
func (b Buckets) Kinds() []resource.Any {
	out := Direct()
	for _, scheme := range slices.Sorted(maps.Keys(b)) {
		if k := b[scheme].Kind; !slices.ContainsFunc(out, func(o resource.Any) bool { return o.KindName() == k.Name }) {
			out = append(out, k.Erase())
		}
	}
	return out
}

// Direct lists the kinds that no other tool can write.
func Direct() []resource.Any {
	return []resource.Any{Keyset.Erase(), Secret.Erase(), StoreFile.Erase(), OwnProgram.Erase()}
}

// Location is a folder in a store, as files refer to it.
type Location struct {
	// Bucket declares its files; if nil, they are StoreFiles.
	Bucket *Bucket
	// Store is the bucket, or the URL of a store without buckets.
	Store string
	// Prefix is the folder's key in the store: empty, or ending in a slash.
	Prefix string
}

// Location splits a store's URL. A store that is not a bucket has its URL as its name, and no
// prefix.
func (b Buckets) Location(url string) Location {
	scheme, rest, ok := strings.Cut(strings.TrimSuffix(url, "/"), "://")
	if !ok {
		scheme, rest = "file", scheme
	}
	in := b[scheme]
	if in == nil {
		return Location{Store: scheme + "://" + rest}
	}
	name, folder, _ := strings.Cut(rest, "/")
	if folder != "" {
		folder += "/"
	}
	return Location{Bucket: in, Store: name, Prefix: folder}
}

// Kind returns the name of the kind of files at the location.
func (l Location) Kind() string {
	if l.Bucket == nil {
		return StoreFile.Name
	}
	return l.Bucket.Kind.Name
}

// Node declares a file below the location.
func (l Location) Node(name, key string, content resource.Content, public bool) resource.Node {
	f := File{Store: l.Store, Key: l.Prefix + key, Content: content}
	if public {
		f.ACL = publicRead
	}
	if l.Bucket == nil {
		return StoreFile.New(name, f)
	}
	f.Provider, f.Encryption = l.Bucket.Provider, l.Bucket.Encryption
	return l.Bucket.Kind.New(name, f)
}

// WantedDigests returns the digests of the desired files of a graph, by their kinds' keys.
func WantedDigests(g *graph.Graph) map[string]string {
	out := map[string]string{}
	for n := range g.All() {
		if f, ok := n.Want.(*File); ok {
			if d, known := f.Content.Digest(); known {
				out[fileKey(f)] = d
			}
		}
	}
	return out
}

func fileKey(f *File) string { return f.Store + "/" + f.Key }

// listFiles returns the owned files, and those that are desired. An area may be within another: a
// file in both is listed once, because a second one would be considered a leftover and removed.
func listFiles(ctx context.Context, c Files, s resource.Scope) ([]*File, error) {
	var out []*File
	seen := map[string]bool{}
	for _, a := range c.Areas {
		all, err := a.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, i := range all {
			f := &File{Store: a.Store, Key: a.Prefix + i.Key}
			if seen[fileKey(f)] || !layout.IsOwned(i.Key) && !slices.Contains(s.Names, fileKey(f)) {
				continue
			}
			seen[fileKey(f)] = true
			f.Content = resource.Digested(i.Digest)
			if want, known := c.Wanted[fileKey(f)]; i.Digest == "" || known && want != i.Digest {
				data, err := a.Read(ctx, i.Key)
				if fault.Is(err, fault.Gone) {
					continue
				}
				if err != nil {
					return nil, err
				}
				f.Content = Text(string(data))
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// area finds a file's area and its key there.
func (c Files) area(f *File) (Area, string, error) {
	best, key := -1, ""
	for i, a := range c.Areas {
		if k, ok := strings.CutPrefix(f.Key, a.Prefix); ok && a.Store == f.Store && (best < 0 || len(a.Prefix) > len(c.Areas[best].Prefix)) {
			best, key = i, k
		}
	}
	if best < 0 {
		return Area{}, "", fault.New(fault.Permanent, "the store of %s is not open", fileKey(f))
	}
	return c.Areas[best], key, nil
}

func writeFile(ctx context.Context, c Files, f *File) error {
	a, key, err := c.area(f)
	if err != nil {
		return err
	}
	text, known := f.Content.Value().Known()
	if !known {
		return fmt.Errorf("the content of %s is not known", fileKey(f))
	}
	return a.Write(ctx, key, []byte(text), Options{PublicRead: f.ACL == publicRead})
}

func rewrite(ctx context.Context, c Files, _, want *File) error { return writeFile(ctx, c, want) }

func removeFile(ctx context.Context, c Files, f *File) error {
	a, key, err := c.area(f)
	if err != nil {
		return err
	}
	return a.Remove(ctx, key)
}

// FolderOf returns the path in a store's URL: file:///a/b, or /a/b itself.
func FolderOf(url string) (string, bool) {
	folder := strings.TrimPrefix(url, "file://")
	if !strings.HasPrefix(folder, "/") {
		return "", false
	}
	return path.Clean(folder), true
}
