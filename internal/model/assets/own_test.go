package assets

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
)

// newIndex returns the index of an archive for one architecture.
func newIndex() *programs.Index {
	file := func(path, digit, program string) map[download.Arch]programs.File {
		return map[download.Arch]programs.File{download.ARM64: {Path: path, SHA256: strings.Repeat(digit, 64), Program: program}}
	}
	return &programs.Index{Version: "1.37.0", Nodeup: file("linux/arm64/nodeup.gz", "1", strings.Repeat("2", 64)),
		Images: map[string]programs.Image{programs.Channels: {Name: "kops.internal/channels:1.37.0-3", Archives: file("images/channels-arm64.tar.gz", "4", "")}}}
}

func TestNodeupIsWhereTheClusterHasIt(t *testing.T) {
	const store = "s3://b/c.e.com"
	ours, stated := strings.Repeat("2", 64), strings.Repeat("5", 64)
	h := Hashes(func(u string) (string, bool) { return stated, u == programs.Public("1.37.0", download.ARM64) })
	key := store + "/programs/" + strings.Repeat("1", 64) + "/nodeup.gz"
	mirror := MirrorsOf(&api.AssetsSpec{FileRepository: ptr("https://f.e.com")})
	for what, c := range map[string]struct {
		own     Own
		mirrors Mirrors
		sum     string
		urls    []string
	}{
		"the archive":             {own: Own{Programs: newIndex()}, sum: ours, urls: []string{key}},
		"the user's files first":  {own: Own{Programs: newIndex()}, mirrors: mirror, sum: ours, urls: []string{"https://f.e.com/binaries/kops/1.37.0/linux/arm64/nodeup", key}},
		"the user's files":        {mirrors: mirror, sum: stated, urls: []string{"https://f.e.com/binaries/kops/1.37.0/linux/arm64/nodeup"}},
		"the user's copy":         {own: Own{Programs: newIndex(), Base: "https://c.e.com/1/"}, sum: ours, urls: []string{"https://c.e.com/1/linux/arm64/nodeup.gz"}},
		"what was not found here": {sum: stated, urls: []string{store + "/programs/" + stated + "/nodeup"}},
	} {
		got := c.own.Nodeup("1.37.0", download.ARM64, store, c.mirrors, h)
		if got.SHA256 != c.sum || !slices.Equal(got.URLs, c.urls) {
			t.Errorf("%s: %s", what, got)
		}
	}
}

func TestImagesOfOwnPrograms(t *testing.T) {
	own := Own{Programs: newIndex(), Instead: map[string]string{programs.Controller: "r.e.com/mine:1"}}
	for program, want := range map[string]string{
		programs.Channels: "kops.internal/channels:1.37.0-3", programs.Controller: "r.e.com/mine:1", programs.Healthcheck: "kops.internal/kube-apiserver-healthcheck:1.37.0",
	} {
		if got := own.ImageName(program, "1.37.0"); got != want {
			t.Errorf("%s is %s, and not %s", program, got, want)
		}
	}
	all := []string{programs.Channels, programs.Controller, programs.Healthcheck}
	images, files := own.Archives(all, download.ARM64, "s3://b/c", Mirrors{})
	if len(images) != 1 || images[0] != "kops.internal/channels:1.37.0-3" || files[0].String() != strings.Repeat("4", 64)+"@s3://b/c/programs/"+strings.Repeat("4", 64)+"/channels-arm64.tar.gz" {
		t.Errorf("%v %v", images, files)
	}
	if images, _ := own.Archives(all, download.ARM64, "", MirrorsOf(&api.AssetsSpec{ContainerProxy: ptr("r.e.com")})); len(images) != 0 {
		t.Errorf("images of a registry are imported: %v", images)
	}
	if images, _ := own.Archives(all, download.AMD64, "", Mirrors{}); len(images) != 0 {
		t.Errorf("images of another architecture are imported: %v", images)
	}
}
