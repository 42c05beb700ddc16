package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	code     = regexp.MustCompile("(?s)```.*?```")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped  = regexp.MustCompile(`[^\w\- ]`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// TestTheLinksLead checks that the files and headings that pages link to exist.
func TestTheLinksLead(t *testing.T) {
	for _, page := range append(pages(t), "SECURITY.md", "CONTRIBUTING.md", "ARCHITECTURE.md") {
		for _, m := range link.FindAllStringSubmatch(prose(t, page), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor != "" && !headings(prose(t, to))[anchor] {
				t.Errorf("%s links to %s, and %s has no such heading", page, m[1], to)
			}
		}
	}
}

// prose returns the text of a page without its code blocks.
func prose(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return code.ReplaceAllString(string(data), "")
}

// headings returns the headings of a page, in the form that links use.
func headings(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		words := dropped.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(m[1], "$1")), "")
		out[strings.ReplaceAll(strings.TrimSpace(words), " ", "-")] = true
	}
	return out
}
