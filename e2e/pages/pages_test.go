package pages

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/platform/aws/awstest"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/proxy"
	"kops.local/kops/internal/test/servers"
)

const root = "../.."

// block is a block of commands in a page.
type block struct {
	page, text string
	line       int
	reason     string   // why it is not run; "" where it is
	without    []string // lines that begin with one of these are not run
}

var (
	// fence matches a block of commands, with the comment before it that says why it is not run:
	// <!-- not run: needs … -->, or, for lines that begin so, <!-- not run (kubectl; kops validate): needs … -->.
	fence = regexp.MustCompile("(?ms)(?:^<!-- not run(?: \\(([^)]+)\\))?: ([^\n]+) -->\n)?^```(?:sh|shell|console)\n(.*?)^```")
	// marks matches every such comment.
	marks = regexp.MustCompile(`<!-- not run`)
)

// blocksOf reads the blocks of a page.
func blocksOf(t *testing.T, page string) []block {
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

// script returns the commands of the block that are run.
func (b block) script() string {
	var out strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
		if !slices.ContainsFunc(b.without, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			out.WriteString(line)
		}
	}
	return fmt.Sprintf("echo '### %s:%d'\n%s", b.page, b.line, out.String())
}

// reader follows the pages: a home with kops and an account at an emulator of AWS.
type reader struct {
	*clitest.User
	aws      *awstest.Server
	proxy    *proxy.Proxy
	programs string // a folder that is first in PATH
}

// wrapper is kops as the pages run it. The emulator has none of the images that kops takes by
// default, and exit code 2 of --detailed-exitcode is what the page announces.
const wrapper = `#!/bin/sh
case "$1 $2" in 'create cluster') set -- "$@" --image 099720109477/ubuntu/images/hvm-ssd/ubuntu-trusty-14.04-amd64-server-20170727 ;; esac
%s "$@" || { code=$?; case " $* " in *' --detailed-exitcode '*) [ $code = 2 ] && exit 0 ;; esac; exit $code; }
`

func newReader(t *testing.T, kops string, aws *awstest.Server) *reader {
	t.Helper()
	r := &reader{User: clitest.NewUser(t, awsspec.Platform()), aws: aws, proxy: awstest.Proxy(t, aws.URL), programs: t.TempDir()}
	cli, err := exec.LookPath("aws")
	if err != nil {
		servers.Missing(t, "the command aws is not installed (pip install awscli)")
	}
	for name, text := range map[string]string{
		"kops": fmt.Sprintf(wrapper, kops),
		"aws":  fmt.Sprintf("#!/bin/sh\nAWS_ENDPOINT_URL=%s exec %s \"$@\"\n", aws.URL, cli), // kops does not make its calls
	} {
		if err := os.WriteFile(filepath.Join(r.programs, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	maps.Copy(r.Env, map[string]string{
		"PATH": r.programs + ":" + os.Getenv("PATH"), "AWS_ENDPOINT_URL": r.proxy.URL, "AWS_REGION": aws.Region, "AWS_DEFAULT_REGION": aws.Region,
		"AWS_ACCESS_KEY_ID": aws.AccessKey, "AWS_SECRET_ACCESS_KEY": aws.SecretKey, "KOPS_STATE_S3_WITHOUT_LOCKS": "true",
		"S3_ENDPOINT": r.proxy.URL, "S3_REGION": aws.Region, "S3_ACCESS_KEY_ID": aws.AccessKey, "S3_SECRET_ACCESS_KEY": aws.SecretKey,
	})
	return r
}

// follow runs the blocks of a page in one shell, after testdata/PAGE.sh, which prepares what
// the page takes for granted.
func (r *reader) follow(blocks []block) {
	r.Helper()
	dir := r.TempDir()
	script := "set -e\n"
	name := strings.TrimSuffix(filepath.Base(blocks[0].page), ".md")
	if prepare, err := os.ReadFile(filepath.Join("testdata", name+".sh")); err == nil {
		script += string(prepare)
	}
	for _, b := range blocks {
		script += b.script() + "\n"
	}
	cmd := exec.CommandContext(r.Context(), "sh", "-c", script)
	cmd.Dir = dir
	for k, v := range r.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Errorf("%v\n%s", err, tail(string(out)))
	}
}

// tail is the end of an output, from its last block on.
func tail(out string) string {
	if i := strings.LastIndex(out, "### "); i >= 0 {
		out = out[i:]
	}
	return out
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

// TestThePagesRun runs every block of commands in docs/ and the README that does not say why
// it cannot run here.
func TestThePagesRun(t *testing.T) {
	aws, kops := awstest.Moto(t), clitest.Program(t)
	ran, left := 0, 0
	for _, page := range pages(t) {
		var run []block
		for _, b := range blocksOf(t, page) {
			if b.reason == "" {
				run = append(run, b)
				continue
			}
			left++
			t.Logf("not run: %s:%d: %s", b.page, b.line, b.reason)
		}
		if ran += len(run); len(run) == 0 {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			aws.Reset(t)
			r := newReader(t, kops, aws)
			r.follow(run)
			if page == awsPage {
				checkPolicy(t, r.proxy.Counts())
			}
		})
	}
	if ran < 15 {
		t.Errorf("only %d blocks ran", ran)
	}
	t.Logf("%d blocks ran, and %d did not", ran, left)
}
