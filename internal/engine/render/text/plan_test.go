package text_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/sim"
)

// The tables of package plan test what a plan looks like; this file tests the rest.

func planOf(t *testing.T, want, have string, prune bool) *plan.Plan {
	t.Helper()
	g, err := sim.ParseGraph(want)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.ParseSnapshot(have)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(g, s, sim.Kinds(), plan.Options{Prune: prune})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func planText(t *testing.T, p *plan.Plan, o text.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := text.Plan(&b, p, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const (
	someWant = "volume new\nvolume changed size=2\nvolume moved zone=b\nvolume same"
	someHave = "volume volume-1 name=changed size=1\nvolume volume-2 name=moved zone=a\nvolume volume-3 name=same\nvolume volume-4 name=old"
)

func TestColorsAreThereOnlyWhenAskedFor(t *testing.T) {
	p := planOf(t, someWant, someHave, true)
	plain, color := planText(t, p, text.Options{}), planText(t, p, text.Options{Color: true})
	if strings.Contains(plain, "\x1b") {
		t.Errorf("escapes in %q", plain)
	}
	for _, mark := range []string{"\x1b[32m+\x1b[0m volume/new", "\x1b[33m~\x1b[0m volume/changed", "\x1b[35m-/+\x1b[0m volume/moved", "\x1b[31m-\x1b[0m volume/old"} {
		if !strings.Contains(color, mark) {
			t.Errorf("no %q in %q", mark, color)
		}
	}
	if uncolored := strings.NewReplacer("\x1b[32m", "", "\x1b[33m", "", "\x1b[35m", "", "\x1b[31m", "", "\x1b[0m", "").Replace(color); uncolored != plain {
		t.Errorf("colours change more than colours:\n%s", cmp.Diff(plain, uncolored))
	}
}

func TestThePreviewSaysHowToGoOn(t *testing.T) {
	changes, none := planOf(t, someWant, someHave, false), planOf(t, "volume v", "volume volume-1 name=v", false)
	for _, c := range []struct {
		name string
		p    *plan.Plan
		o    text.Options
		want string
	}{
		{"changes", changes, text.Options{Preview: true}, "Plan: 1 to create, 1 to modify, 1 to replace, 1 only with --prune, 1 unchanged\n\nMust specify --yes to apply changes\n"},
		{"changes that are applied", changes, text.Options{}, "Plan: 1 to create, 1 to modify, 1 to replace, 1 only with --prune, 1 unchanged\n"},
		{"no changes", none, text.Options{Preview: true}, "No changes need to be applied\n"},
		{"no changes to apply", none, text.Options{}, ""},
	} {
		got := planText(t, c.p, c.o)
		if !strings.HasSuffix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q at its end", c.name, got, c.want)
		}
	}
}

func TestJSONHoldsThePlan(t *testing.T) {
	p := planOf(t, someWant, someHave, false)
	var b bytes.Buffer
	if err := text.JSON(&b, p, text.Run{Cluster: "a", Version: "1", Time: time.Unix(0, 0).UTC()}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Format                 int
		Kind, Cluster, Version string
		Time                   time.Time

		Digest  string
		Summary map[string]int
		Steps   []struct {
			Address  resource.Address
			Op       string
			Replaces bool
			Have     map[string]any
			Want     map[string]any
			IDs      []string
			After    []int
		}
		Deferred []struct{ Address resource.Address }
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if want, err := p.Digest(); err != nil || got.Digest != want {
		t.Errorf("digest %s, want %s (%v)", got.Digest, want, err)
	}
	want := map[string]int{"create": 1, "modify": 1, "replace": 1, "delete": 0, "deferred": 1, "keep": 1, "shared": 0}
	if d := cmp.Diff(want, got.Summary); d != "" {
		t.Error(d)
	}
	if len(got.Steps) != len(p.Steps) || len(got.Deferred) != 1 || got.Deferred[0].Address.Name != "old" {
		t.Errorf("steps or deferred steps are missing: %s", b.String())
	}
	if got.Format != 1 || got.Kind != "preview" || got.Cluster != "a" || got.Version != "1" || !got.Time.Equal(time.Unix(0, 0)) {
		t.Errorf("it is not said what this is: %s", b.String())
	}
	for _, s := range got.Steps {
		if s.Op == "keep" && (s.Want != nil || s.Have != nil || len(s.IDs) == 0) {
			t.Errorf("%v: what is kept is told as %+v", s.Address, s)
		}
		if s.Op == "create" && s.Want["Name"] != s.Address.Name {
			t.Errorf("%v: what is created is not told", s.Address)
		}
	}
}

func TestDeletionListsWhatGoesAndWhatStays(t *testing.T) {
	have := "network network-1 name=main\nsubnet subnet-1 name=a network=network-1\ngroup group-1 name=g template=t version=1 subnets=subnet-1"
	var b bytes.Buffer
	if err := text.Deletion(&b, planOf(t, "network main shared=network-1", have, true)); err != nil {
		t.Fatal(err)
	}
	want := `TYPE    NAME  ID
group   g     group-1
subnet  a     subnet-1

Kept, because it is shared:
TYPE     NAME  ID
network  main  network-1
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
	b.Reset()
	if err := text.Deletion(&b, planOf(t, "", "volume volume-1 name=data size=2\nvolume volume-2 name=empty", true)); err != nil {
		t.Fatal(err)
	}
	want = `TYPE    NAME   ID        HOLDS
volume  data   volume-1  2 GiB of data
volume  empty  volume-2
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
	b.Reset()
	if err := text.Deletion(&b, planOf(t, "", "", true)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("No resources are left to delete\n", b.String()); d != "" {
		t.Error(d)
	}
}

// paper is a kind with every type of long text.
type paper struct {
	Name    string
	Body    resource.Content
	Policy  string `res:",json"`
	Notes   resource.Value
	Inner   inner
	Pointer *inner
	Files   map[string]resource.Content

	ID string `res:"out,id" out:"id"`
}

type inner struct{ Text resource.Content }

func papers() *resource.Kind[paper, any] {
	return &resource.Kind[paper, any]{Name: "paper", Key: func(p *paper) string { return p.Name }}
}

func paperPlan(t *testing.T, want, have paper) *plan.Plan {
	t.Helper()
	g, k := &graph.Graph{}, papers()
	if err := g.Add(k.New(want.Name, want)); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(g, plan.Snapshot{"paper": {{Key: have.Name, Got: &have}}}, []resource.Any{k.Erase()}, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func content(s string) resource.Content { return resource.Text(resource.Lit(s)) }

func TestLongTextsAreShownAsDifferences(t *testing.T) {
	policy := func(action string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"` + action + `","Resource":"*"}]}`
	}
	got := planText(t, paperPlan(t,
		paper{Name: "a", Body: content("1\n2\n3\n4\n5"), Policy: policy("s3:Get"), Notes: resource.Lit("x\ny\n"),
			Inner: inner{content("a\nb\n")}, Pointer: &inner{content("a\nc\n")}, Files: map[string]resource.Content{`k.["x`: content("new\nfile\n")}},
		paper{Name: "a", Body: content("1\n2\n3\nfour\n5\n"), Policy: policy("s3:Put"), Notes: resource.Lit("x\n"),
			Inner: inner{content("a\n")}, Pointer: &inner{content("a\nb\n")}, Files: map[string]resource.Content{`k.["x`: content("old\nfile\n")}},
	), text.Options{})
	want := `Will modify resources:
  ~ paper/a
      Body:
        @@ -1,5 +1,5 @@
         1
         2
         3
        -four
        +4
         5
      Policy:
        @@ -1,7 +1,7 @@
         {
           "Statement": [
             {
        -      "Action": "s3:Put",
        +      "Action": "s3:Get",
               "Effect": "Allow",
               "Resource": "*"
             }
      Notes:
        @@ -1,1 +1,2 @@
         x
        +y
      Inner.Text:
        @@ -1,1 +1,2 @@
         a
        +b
      Pointer.Text:
        @@ -1,2 +1,2 @@
         a
        -b
        +c
      Files["k.[\"x"]:
        @@ -1,2 +1,2 @@
        -old
        +new
         file

Plan: 1 to modify
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTextsThatAreNotKnownOrSecretAreNotShown(t *testing.T) {
	other := resource.Out(resource.Address{Kind: "paper", Name: "a"}, "id")
	for _, c := range []struct {
		name       string
		want, have paper
		line       string
	}{
		{"a secret", paper{Body: resource.SecretText("hunter\n2")}, paper{Body: content("one\ntwo")}, "Body: md5:76bb1822205fc52742565357a1027fec (7 bytes) -> md5:"},
		{"observed by digest", paper{Body: content("one\ntwo")}, paper{Body: resource.Digested("00")}, "Body: md5:00 -> md5:76bb1822205fc52742565357a1027fec (7 bytes)"},
		{"a reference", paper{Body: resource.Text(resource.Concat(resource.Lit("a\n"), other))}, paper{Body: content("a\nb\n")}, "Body: md5:dd8c6a395b5dd36c56d23275028f526c (4 bytes) -> (known after apply)"},
		{"a value", paper{Notes: resource.Concat(resource.Lit("a\n"), other)}, paper{Notes: resource.Lit("a\nb\n")}, "Notes: \"a\\nb\\n\" -> a\n<paper/a.id> (known after apply)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := plan.Step{Address: resource.Address{Kind: "paper", Name: "x"}, Op: plan.Update, Kind: papers().Erase(), Want: &c.want, Have: &c.have}
			s.Changes = s.Kind.Schema().Diff(s.Want, s.Have)
			got := planText(t, &plan.Plan{Steps: []plan.Step{s}}, text.Options{})
			if strings.Contains(got, "hunter") || strings.Contains(got, "@@") {
				t.Errorf("shows too much: %s", got)
			}
			if !strings.Contains(got, c.line) {
				t.Errorf("no %q in %s", c.line, got)
			}
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestErrorsOfTheWriterAreReturned(t *testing.T) {
	p := planOf(t, someWant, someHave, true)
	for name, err := range map[string]error{
		"plan": text.Plan(broken{}, p, text.Options{}), "json": text.JSON(broken{}, p, text.Run{}), "deletion": text.Deletion(broken{}, p),
	} {
		if err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOfALongListOnlyTheChangeIsShown(t *testing.T) {
	list := func(last string) string {
		var b strings.Builder
		for i := range 12 {
			fmt.Fprintf(&b, "subnet-%d,", i)
		}
		return "template=t-1 version=1 subnets=" + b.String() + last
	}
	for to, spelled := range map[string]string{"subnet-new": "subnet-new", "@subnet/s.id": "<subnet/s.id> (known after apply)"} {
		got := planText(t, planOf(t, "subnet s\ngroup g "+list(to), "group group-1 name=g "+list("subnet-old"), false), text.Options{})
		want := "  ~ group/g  group-1\n      Subnets:\n        -subnet-old\n        +" + spelled + "\n\n"
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want in it %s", got, want)
		}
	}
}

type parted struct {
	Name string `res:"replace"`
	Part *part  `res:"replace"`
	None *part  `res:"replace"`
}

type part struct {
	Network resource.Value
	Size    int
}

func TestOfANewPartEachFieldIsShown(t *testing.T) {
	kind := &resource.Kind[parted, any]{Name: "parted", API: "toy", Key: func(p *parted) string { return p.Name }}
	network := sim.NewNetwork(sim.Network{Name: "main"})
	g := &graph.Graph{}
	if err := g.Add(network, kind.New("p", parted{Name: "p", Part: &part{Network: network.Out("id"), Size: 2}})); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(g, plan.Snapshot{}, nil, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := "  + parted/p\n      Name: \"p\"\n      Part.Network: <network/main.id> (known after apply)\n      Part.Size: 2\n\n"
	if got := planText(t, p, text.Options{}); !strings.Contains(got, want) {
		t.Errorf("got %s, want in it %s", got, want)
	}
}

// A password in a URL is hidden in every form of a plan: previews end up in CI logs.
func TestPasswordsOfURLsAreNotShown(t *testing.T) {
	p := planOf(t, "volume changed zone=http://u:hush@new\nvolume fresh zone=http://u:hush@fresh\nvolume bare zone=host:u:hush@bare", "volume volume-1 name=changed zone=http://u:hush@old", true)
	var doc bytes.Buffer
	if err := text.JSON(&doc, p, text.Run{}); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(doc.Bytes()) {
		t.Errorf("not JSON: %s", &doc)
	}
	for _, form := range []string{planText(t, p, text.Options{}), planText(t, p, text.Options{Color: true}), doc.String()} {
		if strings.Contains(form, "hush") || !strings.Contains(form, "http://xxxxx@new") || !strings.Contains(form, "http://xxxxx@fresh") || !strings.Contains(form, "host:xxxxx@bare") {
			t.Error(form)
		}
	}
}
