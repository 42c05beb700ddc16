package laws

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// actions match the parts of a template that are evaluated.
var actions = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// named are a field of the spec and the default of another one, which add-ons of all clouds read, and
// curl's option for the signatures of S3, which many servers speak.
var named = regexp.MustCompile(`\$c\.AWSSrcDstCheck|cloud\.google\.com|--aws-sigv4 "aws:amz:`)

// TestSharedTextsNameNoCloud finds the names of clouds in the texts that are not Go: what templates
// of add-ons decide, and what scripts contain. The add-ons of one cloud, which say so in their
// conditions, and the cloud's own folder may name it.
func TestSharedTextsNameNoCloud(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	read := 0
	for _, folder := range []string{"internal", "api", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			short, _ := filepath.Rel(root, path)
			if d.IsDir() {
				if d.Name() == "testdata" || cloudOf(filepath.ToSlash(short)) != "" || isForTests(filepath.ToSlash(short)) {
					return filepath.SkipDir
				}
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			judged := ""
			switch {
			case strings.HasSuffix(path, ".tmpl"), strings.HasSuffix(path, ".sh"):
				judged = string(text)
			case d.Name() == "manifest.yaml" && !isOwnAddon(t, filepath.Dir(path)), d.Name() == "addon.yaml" && !isOwnAddon(t, filepath.Dir(path)):
				judged = strings.Join(actions.FindAllString(string(text), -1), "\n")
			default:
				return nil
			}
			read++
			if name := cloudNames.FindString(named.ReplaceAllString(judged, "")); name != "" {
				t.Errorf("%s names a cloud, %s: let the platform say what differs, in its traits", short, name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 40 {
		t.Errorf("only %d texts were read", read)
	}
}

// isOwnAddon reports whether an add-on runs on one cloud only.
func isOwnAddon(t *testing.T, dir string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "addon.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return cloudNames.MatchString(strings.Join(actions.FindAllString(string(text), -1), "\n"))
}
