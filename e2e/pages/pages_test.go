package pages

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/kubetest"
)

const root = "../.."

// block is a block of commands in a page.
type block struct {
	page, text string
	line       int
	reason     string   // why it is not run; "" if it is
	without    []string // lines that begin with one of these are not run
}

var (
	// fence matches a block of commands, with the preceding comment on why it is not run:
	// <!-- not run: needs … -->, or, for lines with these prefixes, <!-- not run (kubectl; kops validate): needs … -->.
	fence = regexp.MustCompile("(?ms)(?:^<!-- not run(?: \\(([^)]+)\\))?: ([^\n]+) -->\n)?^```(?:sh|shell|console)\n(.*?)^```")
	// marks matches every such comment.
	marks = regexp.MustCompile(`<!-- not run`)
)

// readBlocks reads the blocks of a page.
func readBlocks(t *testing.T, page string) []block {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	text, marked := string(data), 0
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		group := func(n int) string {
			if m[2*n] < 0 {
				return ""
			}
			return text[m[2*n]:m[2*n+1]]
		}
		b := block{page: page, text: group(3), line: 1 + strings.Count(text[:m[6]], "\n"), reason: group(2)}
		if b.reason != "" {
			marked++
		}
		if lines := group(1); lines != "" {
			b.without, b.reason = strings.Split(lines, "; "), ""
		}
		out = append(out, b)
	}
	if n := len(marks.FindAllString(text, -1)); n != marked {
		t.Errorf("%s has %d comments that say why commands are not run, and only %d are before a block", page, n, marked)
	}
	return out
}

// placeholders are the words of the pages that the reader replaces: functions of the
// page's file in testdata print the values.
var placeholders = regexp.MustCompile(`\b(NAME|NODE|HASH)\b|i-0123456789abcdef0|--revision 7\b`)

// placeholderValue replaces a placeholder with the shell expression that yields its value.
func placeholderValue(word string) string {
	switch word {
	case "i-0123456789abcdef0":
		return `"$(MACHINE)"`
	case "--revision 7":
		return `--revision "$(REVISION)"`
	case "HASH": // it is quoted
		return `'"$(HASH)"'`
	}
	return `"$(` + word + `)"`
}

// script returns the commands of the block that are run.
func (b block) script() string {
	var out strings.Builder
	text := placeholders.ReplaceAllStringFunc(strings.ReplaceAll(b.text, "\\\n", " "), placeholderValue)
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(b.without, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			out.WriteString(line)
		}
	}
	return fmt.Sprintf("echo '### %s:%d'\n%s", b.page, b.line, out.String())
}

// pages lists the pages for users.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil || len(found) < 30 {
		t.Fatalf("%d pages: %v", len(found), err)
	}
	out := []string{"README.md"}
	for _, p := range found {
		out = append(out, "docs/"+filepath.Base(p))
	}
	return out
}

// readOnlyPages and changing return pages that are followed one after the other, in this order, each list on one running cluster.
func readOnlyPages() []string {
	return []string{"docs/dns.md", "docs/joining.md", "docs/staleness.md", "docs/support.md", "docs/ci.md", "docs/from-kops.md"}
}

func changingPages() []string {
	return []string{"docs/rotating-keys.md", "docs/in-place.md", "docs/rolling-updates.md", "docs/upgrades.md"}
}

// creationPages returns the pages on which a reader creates a whole cluster.
func creationPages() []string { return []string{"README.md", awsPage, "docs/control-plane.md"} }

// walk is the shared state of readers of several pages.
type walk struct {
	*testing.T
	found map[string][]block // the blocks that run, by page
	aws   *awstest.Server
	kops  string // the program
	admin *rest.Config
	calls map[string]int // to AWS
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	w := &walk{T: t, found: map[string][]block{}, aws: newMoto(t), kops: clitest.Program(t), admin: kubetest.Start(t), calls: map[string]int{}}
	for _, page := range pages(t) {
		for _, b := range readBlocks(t, page) {
			if b.reason == "" {
				w.found[page] = append(w.found[page], b)
			}
		}
	}
	return w
}

// follow runs the blocks of pages one after the other, as one reader.
func (w *walk) follow(name string, pages ...string) {
	w.Run(name, func(t *testing.T) {
		r := newReader(t, w.kops, w.aws, w.admin)
		r.follow(w.found, pages...)
		for call, n := range r.proxy.Counts() {
			w.calls[call] += n
		}
	})
}

// The tests below run every block of commands in docs/ and the README, except those with a reason why
// they cannot run here, and check that the policy for the user of kops grants every call to AWS.

func TestPagesThatLookAtAClusterRun(t *testing.T) {
	w := newWalk(t)
	w.follow("one cluster", readOnlyPages()...)
	checkPolicy(t, w.calls, 60)
}

func TestPagesThatChangeAClusterRun(t *testing.T) {
	w := newWalk(t)
	w.follow("one cluster", changingPages()...)
	checkPolicy(t, w.calls, 60)
}

func TestPagesThatCreateClustersRun(t *testing.T) {
	w := newWalk(t)
	for _, page := range creationPages() {
		w.follow(filepath.Base(page), page)
	}
	checkPolicy(t, w.calls, 60)
}

func TestOtherPagesRun(t *testing.T) {
	w := newWalk(t)
	for _, page := range slices.Sorted(maps.Keys(w.found)) {
		switch {
		case page == gcePage:
			t.Run(filepath.Base(page), func(t *testing.T) { newGoogleReader(t, w.kops, w.admin).follow(w.found, page) })
		case page == hetznerPage:
			t.Run(filepath.Base(page), func(t *testing.T) { newHetznerReader(t, w.kops, w.admin).follow(w.found, page) })
		case !slices.Contains(slices.Concat(readOnlyPages(), changingPages(), creationPages()), page):
			w.follow(filepath.Base(page), page)
		}
	}
	checkPolicy(t, w.calls, 20)
}

// TestBlocksRun counts the blocks that run, and lists the others with their reasons.
func TestBlocksRun(t *testing.T) {
	ran := 0
	for _, page := range pages(t) {
		for _, b := range readBlocks(t, page) {
			if b.reason == "" {
				ran++
			} else {
				t.Logf("not run: %s:%d: %s", b.page, b.line, b.reason)
			}
		}
	}
	if ran < 30 {
		t.Errorf("only %d blocks run", ran)
	}
}
