package clusterstore_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// The configurations of machines can be found as long as they may run them, but not forever.
func TestNodeConfigurationsAreKeptByHash(t *testing.T) {
	w := inMemory()
	keep := func(inUse []string, configs ...string) {
		t.Helper()
		var texts [][]byte
		for _, c := range configs {
			texts = append(texts, []byte(c))
		}
		if err := w.client(t).KeepNodeConfigs(t.Context(), name, texts, inUse); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() string {
		t.Helper()
		got, err := w.client(t).NodeConfigs(t.Context(), name, hashOf("one"), hashOf("two"), hashOf("three"), "no hash")
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for h, text := range got {
			if h != hashOf(string(text)) {
				t.Errorf("%s is found as %s", text, h)
			}
			texts = append(texts, string(text))
		}
		slices.Sort(texts)
		return fmt.Sprint(texts)
	}
	keep(nil, "one", "two", "two")
	keep(nil, "one")
	if got := kept(); got != "[one two]" {
		t.Errorf("kept are %s", got)
	}
	if err := w.Sleep(t.Context(), 91*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	keep(nil, "three")
	if got := kept(); got != "[one three two]" {
		t.Errorf("while nobody knows what is in use, kept are %s", got)
	}
	keep([]string{hashOf("one")}, "three")
	if got := kept(); got != "[one three two]" {
		t.Errorf("one is in use, whose set is kept, and kept are %s", got)
	}
	keep([]string{}, "three")
	if got := kept(); got != "[three]" {
		t.Errorf("none is in use, and kept are %s", got)
	}
}
