package encryption_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/contract/pki"
)

const (
	key  = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
)

func random() *bytes.Reader { return bytes.NewReader(bytes.Repeat([]byte{9}, 64)) }

func parse(t *testing.T, text string) *encryption.Config {
	t.Helper()
	c, err := encryption.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func provider(text string) string {
	return head + "resources: [{resources: [secrets], providers: [" + text + "]}]"
}

func TestWhatIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"hello":                          "it is not YAML or JSON with the fields",
		"secret: [" + key:                "did not find expected",
		"resources: hunter2":             "it is not YAML or JSON with the fields",
		"apiVersion: v1\nkind: Secret\n": `apiVersion and kind: got "v1" and "Secret"`,
		head:                             "resources: the list is empty",
		head + "resources: [{providers: [{identity: {}}]}]":                                               "resources[0].resources: name each resource",
		head + "resources: [{resources: [secrets]}]":                                                      "resources[0].providers: the list is empty",
		head + "resource: []":                                                                             `unknown field "resource"`,
		provider("{}"):                                                                                    "resources[0].providers[0]: got 0 of aesgcm",
		provider("{identity: }"):                                                                          "resources[0].providers[0]: got 0 of aesgcm",
		provider("{identity: {}, secretbox: {keys: []}}"):                                                 "got 2 of aesgcm",
		provider("{secretbox: {keys: []}}"):                                                               "resources[0].providers[0].secretbox.keys: the list is empty",
		provider("{identity: {}}, {aescbc: {keys: [{secret: " + key + "}]}}"):                             "providers[1].aescbc.keys[0].name: it is required",
		provider("{aesgcm: {keys: [{name: a, secret: hunter2}]}}"):                                        "keys[0].secret: it is not base64",
		provider("{secretbox: {keys: [{name: a, secret: AAAAAAAAAAAAAAAAAAAAAA==}]}}"):                    "got a key of 16 bytes; want 32",
		provider(fmt.Sprintf("{aescbc: {keys: [{name: a, secret: %s}, {name: a, secret: %[1]s}]}}", key)): `got "a" twice`,
		provider("{kms: {endpoint: unix:///a}}"):                                                          "kms.name: it is required",
		provider("{kms: {name: a, endpoint: /a}}"):                                                        "kms.endpoint: got \"/a\"",
		provider("{kms: {apiVersion: v3, name: a, endpoint: unix:///a}}"):                                 "kms.apiVersion: got \"v3\"",
		provider("{kms: {apiVersion: v2, name: a, endpoint: unix:///a, cachesize: 3}}"):                   "kms.cachesize: version v2 has none",
		provider("{kms: {name: a, endpoint: unix:///a, timeout: soon}}"):                                  "kms.timeout: got \"soon\"",
	} {
		_, err := encryption.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  %v\n  want %s", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), key)) {
			t.Errorf("the error shows a key: %v", err)
		}
	}
}

func TestWhatKopsMakesIsRead(t *testing.T) {
	s, err := pki.NewEncryptionConfig(random())
	if err != nil {
		t.Fatal(err)
	}
	if c := parse(t, s.Reveal()); !slices.Equal(c.Encrypted(), []string{"secrets"}) {
		t.Errorf("it encrypts %v", c.Encrypted())
	}
	if text := fmt.Sprintf("%v %+v %#v", parse(t, s.Reveal()).Resources[0].Providers[0].Secretbox.Keys, parse(t, s.Reveal()).Resources[0].Providers[0].Secretbox.Keys, parse(t, s.Reveal()).Resources[0].Providers[0].Secretbox.Keys); strings.Contains(text, "CQkJ") {
		t.Errorf("printed, it shows its key: %s", text)
	}
}

// names returns the names of the keys of the first resource's first provider.
func names(c *encryption.Config) string {
	var out []string
	for _, k := range c.Resources[0].Providers[0].AESCBC.Keys {
		out = append(out, k.Name)
	}
	return strings.Join(out, " ")
}

func TestAKeyIsRotated(t *testing.T) {
	was := parse(t, head+`
resources:
- resources: [secrets, widgets.example.com]
  providers:
  - aescbc: {keys: [{name: a, secret: `+key+`}, {name: older, secret: `+key+`}]}
  - identity: {}
- resources: [configmaps]
  providers: [{identity: {}}, {secretbox: {keys: [{name: c, secret: `+key+`}]}}]
`)
	if got := was.Encrypted(); !slices.Equal(got, []string{"secrets", "widgets.example.com"}) {
		t.Errorf("it encrypts %v", got)
	}
	both, err := was.Add("b", random())
	if err != nil || names(both) != "a b older" || names(was) != "a older" {
		t.Fatalf("added: %s, %v", names(both), err)
	}
	if again, err := both.Add("b", random()); err != nil || names(again) != "a b older" {
		t.Errorf("added once more: %s, %v", names(again), err)
	}
	first, err := both.Promote("b")
	if err != nil || names(first) != "b a older" {
		t.Errorf("promoted: %s, %v", names(first), err)
	}
	alone, err := first.Only("b")
	if err != nil || names(alone) != "b" {
		t.Errorf("alone: %s, %v", names(alone), err)
	}
	if len(alone.Resources[0].Providers) != 2 || len(alone.Resources[1].Providers) != 2 {
		t.Error("other providers were touched")
	}
	for n, x := range []struct {
		now, was *encryption.Config
		reads    bool
	}{{both, was, true}, {first, was, true}, {alone, was, false}, {alone, first, true}, {was, first, false}} {
		if x.now.Reads(x.was) != x.reads {
			t.Errorf("%d: reads %v", n, !x.reads)
		}
	}
	text, err := alone.Text()
	if err != nil || names(parse(t, text)) != "b" {
		t.Errorf("as text: %s, %v", text, err)
	}
	if _, err := parse(t, provider("{identity: {}}")).Add("b", random()); err == nil {
		t.Error("a configuration that encrypts nothing got a key")
	}
}

func TestAKeyIsRetiredAndPutBack(t *testing.T) {
	const second = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	was := parse(t, head+"resources: [{resources: [secrets, widgets.example.com], providers: [{secretbox: {keys: [{name: a, secret: "+key+"}]}}, {identity: {}}]}]")
	both, err := was.Add("b", random())
	if err == nil {
		both, err = both.Promote("b")
	}
	if err != nil {
		t.Fatal(err)
	}
	alone, err := both.Only("b")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	retired := encryption.RetiredKeys{}.Retire(both, alone, at)
	if len(retired.Keys) != 1 || retired.Keys[0].Name != "a" || !retired.Keys[0].Retired.Equal(at) {
		t.Fatalf("retired are %v", retired.Keys)
	}
	if text := fmt.Sprintf("%v %+v %#v", retired, retired, retired); strings.Contains(text, key) {
		t.Errorf("printed, they show a key: %s", text)
	}
	text, err := retired.Text()
	if err != nil {
		t.Fatal(err)
	}
	if retired, err = encryption.ParseRetired(text); err != nil {
		t.Fatal(err)
	}
	id := was.Keys()[0]
	found, is := retired.Find(id)
	if !is || slices.Contains(alone.Keys(), id) {
		t.Fatalf("%v is not retired: %v", id, retired.Keys)
	}
	// A key with the name of the current write key is also put back.
	found.Name = "b"
	back, err := alone.PutBack(found)
	if err != nil || len(back.Resources) != 1 || len(back.Resources[0].Providers) != 3 || !slices.Contains(back.Keys(), found.ID()) || !slices.Equal(back.Encrypted(), was.Encrypted()) {
		t.Fatalf("put back: %v, %v", back, err)
	}
	if again, err := back.PutBack(found); err != nil || len(again.Resources[0].Providers) != 3 {
		t.Errorf("put back twice: %v, %v", again, err)
	}
	if stored, err := back.Text(); err != nil || len(parse(t, stored).Keys()) != 2 {
		t.Errorf("as text: %s, %v", stored, err)
	}
	// The next rotation removes it, and retires it again.
	next, err := back.Add("c", random())
	if err == nil {
		next, err = next.Promote("c")
	}
	if err == nil {
		next, err = next.Only("c")
	}
	if err != nil || len(next.Keys()) != 1 || len(next.Resources[0].Providers) != 2 {
		t.Errorf("after another rotation: %v, %v", next.Keys(), err)
	}
	if again := retired.Retire(back, next, at.Add(time.Hour)); len(again.Keys) != 3 {
		t.Errorf("retired are %v", again.Keys)
	}
	// Resources that the configuration no longer has become readable again.
	other := parse(t, head+"resources: [{resources: [configmaps, '*.apps'], providers: [{aescbc: {keys: [{name: a, secret: "+second+"}]}}]}]")
	other, err = other.PutBack(retired.Keys[0])
	if err != nil || len(other.Resources) != 3 || other.Resources[0].Providers[0].Identity == nil {
		t.Errorf("%v, %v", other, err)
	}
	if _, err := encryption.ParseRetired(`{"keys": [{"provider": "secretbox", "name": "a", "secret": "hunter2"}]}`); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a damaged list: %v", err)
	}
}
