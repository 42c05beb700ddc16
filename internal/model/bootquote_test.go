package model_test

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/assets"
)

// head marks the end of the part of the script before its first own command: it sets variables,
// which hold texts of a spec.
const head = "\nfor name in http_proxy"

// FuzzNoTextOfASpecIsRun puts one text everywhere where a spec gets into user data. A shell must
// treat it as text: the variables have exactly this value, no command is looked up, and the boot
// configuration ends where it should. Only a restricted shell, without redirection or changes of
// folder, runs the beginning of the script; all of it is parsed.
func FuzzNoTextOfASpecIsRun(f *testing.F) {
	if _, err := exec.LookPath("bash"); err != nil {
		if os.Getenv("CI") == "true" {
			f.Fatal("bash is not installed")
		}
		f.Skip("NO SCRIPT IS READ: bash is not installed")
	}
	for _, s := range []string{
		"plain", "", "$(canary)", "`canary`", "'$(canary)'", "'; canary; '", "\"; canary; \"", "a'b$(canary)&c", "x\ncanary\n", "?sig=a&canary", "a b", "${IFS}canary",
		"\\", "\\'", "#canary", "!canary", "~", "*", "{a,b}", "<(canary)", "$'\\n'canary", "\n__EOF_KUBE_ENV\ncanary\n", "__EOF_KUBE_ENV", "é\u2028$(canary)", "a\r\nb",
		"\n--MIMEBOUNDARY\n", "--MIMEBOUNDARYX", "\tcanary", "-o canary", "%(canary)", "{{ .Config }}", "@boot-config@", "@api-host@",
	} {
		f.Add(s)
	}
	var once sync.Once
	var base model.Input
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Skip("no YAML holds it")
		}
		once.Do(func() { base = input(t, golden+"irsa") })
		in, g := hostileInput(t, base, text)
		if _, err := model.UserData(in, g, resource.Value{}); err != nil {
			t.Skipf("nothing is written: %v", err)
		}
		script := script(t, in, g, resource.Value{})
		parsed := exec.CommandContext(t.Context(), "bash", "-n")
		parsed.Stdin = strings.NewReader(script)
		if out, err := parsed.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if c := bootConfig(t, script); c.ClusterName != in.Cluster.Name || c.InstanceGroupName != g.Name {
			t.Errorf("the boot configuration is of %q, %q", c.ClusterName, c.InstanceGroupName)
		}
		readHead(t, script, map[string]string{
			"NODEUP_URL_AMD64": strings.Join(in.Own.Nodeup(in.Version, download.AMD64, in.Cluster.Spec.ConfigStore.Base, assets.MirrorsOf(in.Cluster.Spec.Assets), nil).URLs, ","), "AWS_REGION": in.Region, "S3_ENDPOINT": in.Environment["S3_ENDPOINT"],
			"http_proxy": "http://" + in.Cluster.Spec.Networking.EgressProxy.HTTPProxy.Host + ":3128", "no_proxy": in.Cluster.Spec.Networking.EgressProxy.Excludes,
		})
		g.Spec.AdditionalUserData = []api.UserData{{Name: "n" + text, Type: "text/x-shellscript", Content: text}}
		readParts(t, in, g)
	})
}

// hostileInput returns an input with one control-plane group, all of whose texts are the given one.
func hostileInput(t *testing.T, base model.Input, text string) (model.Input, *api.InstanceGroup) {
	t.Helper()
	in := base
	in.Cluster = base.Cluster.DeepCopy()
	g := group(t, base, api.RoleControlPlane).DeepCopy()
	in.Groups = []*api.InstanceGroup{g}
	g.Name, in.Environment = "g"+text, map[string]string{"S3_ENDPOINT": "e" + text}
	in.Cluster.Spec.Assets = &api.AssetsSpec{FileRepository: ptr("https://files.e.com/" + text)}
	in.Cluster.Spec.Networking.EgressProxy = &api.EgressProxySpec{HTTPProxy: api.HTTPProxy{Host: "h" + text, Port: 3128}, Excludes: "x" + text}
	in.Cluster.Spec.ConfigStore.Base += "/" + text
	g.Spec.Hooks = []api.HookSpec{{Name: text, Manifest: text}}
	return in, g
}

// readHead runs the beginning of a script in a restricted shell, which must set the wanted
// variables, and look up no command.
func readHead(t *testing.T, script string, want map[string]string) {
	t.Helper()
	beginning, _, ok := strings.Cut(script, head)
	if !ok {
		t.Fatalf("the script has no %q", head)
	}
	folder := t.TempDir()
	const canary = "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\n"
	if err := os.WriteFile(filepath.Join(folder, "canary"), []byte(canary), 0o700); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range want {
		names = append(names, name)
		beginning += "\nprintf '%s\\0' \"${" + name + "}\""
	}
	cmd := exec.CommandContext(t.Context(), "bash", "--restricted")
	cmd.Stdin, cmd.Dir, cmd.Env = strings.NewReader(beginning+"\n"), folder, []string{"PATH=" + folder}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Errorf("%v: %s", err, errs.String())
	}
	if _, err := os.Stat(filepath.Join(folder, "ran")); err == nil {
		t.Error("a text of the spec was run")
	}
	got := strings.Split(string(out), "\x00")
	for i, name := range names {
		if i >= len(got) || got[i] != want[name] {
			t.Errorf("%s is not %q in %q", name, want[name], got)
		}
	}
}

// readParts splits multi-part user data like mail, and looks for what was put in.
func readParts(t *testing.T, in model.Input, g *api.InstanceGroup) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(script(t, in, g, resource.Value{})))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var contents, names []string
	for parts := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		_, disposition, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			t.Fatal(err)
		}
		contents, names = append(contents, string(content)), append(names, disposition["filename"])
	}
	u := g.Spec.AdditionalUserData[0]
	if len(contents) != 2 || contents[1] != u.Content || names[0] != "nodeup.sh" || len([]rune(names[1])) != len([]rune(u.Name)) {
		t.Errorf("parts %q hold %q", names, contents[1:])
	}
}
