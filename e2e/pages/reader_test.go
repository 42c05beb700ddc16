package pages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kops.local/kops/internal/platform/aws/awstest"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/proxy"
	"kops.local/kops/internal/test/servers"
)

// patience is the time limit of a reader.
const patience = 9 * time.Minute

// reader follows the pages: a home with kops, an account at an emulator of AWS, and a stand-in for
// the internet.
type reader struct {
	*clitest.User
	proxy *proxy.Proxy
}

// wrapper is kops as the pages run it. With --detailed-exitcode, it turns exit code 2 into success, as documented on the page.
const wrapper = `#!/bin/sh
%s "$@" || { code=$?; case " $* " in *' --detailed-exitcode '*) [ $code = 2 ] && exit 0 ;; esac; exit $code; }
`

// newReader creates a reader with an empty account. The API server is shared by the clusters.
func newReader(t *testing.T, kops string, aws *awstest.Server, admin *rest.Config) *reader {
	t.Helper()
	aws.Reset(t)
	aws.Bucket(t, "my-state-store")
	aws.Bucket(t, "my-public-bucket") // of issuers
	r := &reader{User: clitest.NewUser(t, awsspec.Platform()), proxy: awstest.Proxy(t, aws.URL)}
	if err := os.RemoveAll(filepath.Join(r.Home, ".cache/kops/hashes")); err != nil { // the publishers provide them
		t.Fatal(err)
	}
	state, err := store.Backends{s3.Backend(aws.S3())}.Open(t.Context(), "s3://my-state-store")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{TB: t, name: "cluster.example.com", state: state, machines: instances(aws), admin: admin}
	i := newInternet(t, c.serve())
	maps.Copy(r.Env, map[string]string{
		"PATH": programs(t, kops, aws.URL) + ":" + os.Getenv("PATH"), "AWS_ENDPOINT_URL": r.proxy.URL, "AWS_REGION": aws.Region, "AWS_DEFAULT_REGION": aws.Region,
		"AWS_ACCESS_KEY_ID": aws.AccessKey, "AWS_SECRET_ACCESS_KEY": aws.SecretKey, "KOPS_STATE_S3_WITHOUT_LOCKS": "true",
		"S3_ENDPOINT": r.proxy.URL, "S3_REGION": aws.Region, "S3_ACCESS_KEY_ID": aws.AccessKey, "S3_SECRET_ACCESS_KEY": aws.SecretKey,
		"HTTPS_PROXY": i.url, "SSL_CERT_FILE": i.authority,
	})
	return r
}

// programs writes the wrappers of programs into a folder.
func programs(t *testing.T, kops, aws string) string {
	t.Helper()
	cli, err := exec.LookPath("aws")
	if err != nil {
		servers.SkipMissing(t, "the command aws is not installed (pip install awscli)")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kops": fmt.Sprintf(wrapper, kops),
		"aws":  fmt.Sprintf("#!/bin/sh\nAWS_ENDPOINT_URL=%s exec %s \"$@\"\n", aws, cli), // its calls are not made by kops
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// follow runs the blocks of pages in one shell, each page after testdata/PAGE.sh, which prepares
// the page's prerequisites. If it defines a function before_N, that runs before the N-th block.
func (r *reader) follow(blocks map[string][]block, pages ...string) {
	r.Helper()
	script := "set -e\n" + r.readPreparation("functions")
	if len(pages) > 1 {
		script += r.readPreparation("together")
	}
	for _, page := range pages {
		script += "(\n" + r.readPreparation(strings.TrimSuffix(filepath.Base(page), ".md"))
		for i, b := range blocks[page] {
			script += fmt.Sprintf("! command -v before_%d >/dev/null || before_%d\n%s\n", i+1, i+1, b.script())
		}
		script += ")\n"
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = r.TempDir()
	for k, v := range r.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Errorf("%v\n%s", err, tail(string(out)))
	}
}

// readPreparation reads a file of testdata, which may be missing.
func (r *reader) readPreparation(name string) string {
	r.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".sh"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Fatal(err)
	}
	return string(text)
}

// tail returns the end of an output, starting with its last block.
func tail(out string) string {
	if i := strings.LastIndex(out, "### "); i >= 0 {
		out = out[i:]
	}
	return out
}
