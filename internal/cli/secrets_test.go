package cli_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

// noSecrets fails if a file below one of the folders contains a secret of the state store, in plain
// text, base64 or compressed, or any private key.
func noSecrets(ts *testscript.TestScript, dirs []string) {
	secrets, err := secretsOf(ts.MkAbs("state"))
	ts.Check(err)
	if len(secrets) < 10 {
		ts.Fatalf("the state store has %d secrets; a cluster has more", len(secrets))
	}
	secrets["any private key"] = "PRIVATE KEY-----"
	read := 0
	for _, dir := range dirs {
		ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			read++
			for _, text := range embeddedTexts(data, 4) {
				for name, s := range secrets {
					if bytes.Contains(text, []byte(s)) {
						ts.Fatalf("%s holds %s", path, name)
					}
				}
			}
			return err
		}))
	}
	fmt.Fprintf(ts.Stdout(), "%d files hold none of %d secrets\n", read, len(secrets))
}

// secretsOf returns the secret texts, by a name for messages.
func secretsOf(state string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch {
		case d.Name() == "keyset.yaml":
			return privateKeys(path, data, out)
		case filepath.Base(filepath.Dir(path)) == "secrets":
			var s struct{ Data string }
			if err := json.Unmarshal(data, &s); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			text, err := base64.StdEncoding.DecodeString(s.Data)
			out[path] = string(text)
			return err
		}
		return nil
	})
	return out, err
}

// privateKeys adds a line from the middle of each key of a keyset.
func privateKeys(path string, data []byte, out map[string]string) error {
	var k struct {
		Spec struct {
			Keys []struct{ PrivateMaterial []byte }
		}
	}
	if err := yaml.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, key := range k.Spec.Keys {
		lines := strings.Split(string(key.PrivateMaterial), "\n")
		if !strings.Contains(lines[0], "PRIVATE KEY") {
			return fmt.Errorf("%s does not begin with a private key", path)
		}
		out[path] = lines[len(lines)/2]
	}
	return nil
}

// embeddedTexts returns a text and the texts encoded in it, down to a depth.
func embeddedTexts(data []byte, depth int) [][]byte {
	out := [][]byte{data}
	if depth == 0 {
		return out
	}
	if r, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if plain, err := io.ReadAll(r); err == nil {
			out = append(out, embeddedTexts(plain, depth-1)...)
		}
	}
	for _, word := range regexp.MustCompile(`[A-Za-z0-9+/]{40,}=*`).FindAll(data, -1) {
		if plain, err := base64.StdEncoding.DecodeString(string(word)); err == nil {
			out = append(out, embeddedTexts(plain, depth-1)...)
		}
	}
	return out
}
