package storekeys_test

import (
	"encoding/base64"
	"regexp"
	"testing"

	"kops.local/kops/internal/contract/storekeys"
)

func TestKeysComeBack(t *testing.T) {
	for _, p := range []storekeys.Pair{{ID: "AKIA", Secret: `a/b+c="'\:` + "\n$x"}, {ID: "minio user", Secret: "1"}} {
		text := p.Encode()
		if got, err := storekeys.Parse(text + "\n"); got != p || err != nil || !regexp.MustCompile(`^[A-Za-z0-9+/=]+$`).MatchString(text) {
			t.Errorf("%q became %q, and that %q, %v", p, text, got, err)
		}
	}
	for _, bad := range []string{"", "!", base64.StdEncoding.EncodeToString([]byte("id")), base64.StdEncoding.EncodeToString([]byte(":secret")), base64.StdEncoding.EncodeToString([]byte("id:"))} {
		if got, err := storekeys.Parse(bad); err == nil {
			t.Errorf("%q are the keys %q", bad, got)
		}
	}
}

func TestPlacesComeBack(t *testing.T) {
	p := storekeys.Place{Platform: "cloud", Name: "/kops/c.example.com:1"}
	if got, err := storekeys.ParsePlace(p.String()); got != p || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "cloud", ":name", "cloud:"} {
		if got, err := storekeys.ParsePlace(bad); err == nil {
			t.Errorf("%q is the place %v", bad, got)
		}
	}
	if s := (storekeys.Place{}).String(); s != "" {
		t.Errorf("no place is %q", s)
	}
}

func TestKeysAreNeededForServersOfOthers(t *testing.T) {
	for url, want := range map[string]bool{"s3://b/c": true, "do://b/c": true, "gs://b/c": false, "file:///c": false, "/c": false, "memfs://b": false} {
		if storekeys.Needed("https://s3.example.com", url) != want || storekeys.Needed("", url) {
			t.Errorf("%s: not %v", url, want)
		}
	}
}

func TestKeysAreFoundInUserData(t *testing.T) {
	p := storekeys.Pair{ID: "id", Secret: "a:b/c"}
	script := "#!/bin/bash\nexport A='STORE_KEYS=x'\n" + storekeys.ScriptVariable + "=" + p.Encode() + "\necho\n"
	for _, text := range []string{script, base64.StdEncoding.EncodeToString([]byte(script)) + "\n"} {
		if got, err := storekeys.FindInScript(text); got != p || err != nil {
			t.Errorf("in %q are %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "#!/bin/bash\n", " STORE_KEYS=" + p.Encode() + "\n", "STORE_KEYS=!\n", "STORE_KEYS=" + base64.StdEncoding.EncodeToString([]byte("id")) + "\n"} {
		if got, err := storekeys.FindInScript(bad); err == nil {
			t.Errorf("in %q are %v", bad, got)
		}
	}
}
