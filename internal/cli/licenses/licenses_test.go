package licenses

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite third_party.txt")

const own = "kops.local/kops"

// linked is a module that programs link.
type linked struct {
	Path, Version, Dir string
	programs           []string
	texts              []string
}

func (m *linked) String() string { return strings.TrimSpace(m.Path + " " + m.Version) }

func TestWhatIsLinkedIsListed(t *testing.T) {
	modules := read(t)
	for _, m := range modules {
		if m.texts = licences(t, m.Dir); len(m.texts) == 0 {
			t.Errorf("%s has no licence", m)
		}
	}
	want := write(t, modules)
	if *update {
		if err := os.WriteFile("third_party.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if ThirdParty() != want {
		t.Error("third_party.txt is not what the programs link; run go test ./internal/cli/licenses -update, and read what has changed")
	}
}

func TestLicencesAreRecognised(t *testing.T) {
	for text, want := range map[string]string{
		"Permission is hereby granted, free\nof charge": "MIT", "Mozilla Public License, version 2.0": "MPL-2.0", "Apache License\n Version 2.0": "Apache-2.0",
		"Redistributions of source code": "BSD-2-Clause", "Redistributions … Neither the name of": "BSD-3-Clause", "all rights reserved": "",
	} {
		if got := strings.Join(kinds([]string{text}), " "); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// read finds out with the go command what each program links on Linux.
func read(t *testing.T) map[string]*linked {
	t.Helper()
	type pkg struct {
		ImportPath, Name string
		Standard         bool
		Deps             []string
		Module           *linked
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Name,Standard,Deps,Module", own+"/cmd/...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	of, programs := map[string]*linked{}, []pkg{}
	modules := map[string]*linked{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Name == "main" && strings.HasPrefix(p.ImportPath, own+"/cmd/") {
			programs = append(programs, p)
		}
		if p.Module == nil || p.Module.Path == own {
			continue
		}
		if modules[p.Module.Path] == nil {
			modules[p.Module.Path] = p.Module
		}
		of[p.ImportPath] = modules[p.Module.Path]
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	std := &linked{Path: "std", Dir: strings.TrimSpace(string(root))}
	modules["std"] = std
	for _, p := range programs {
		name := path.Base(p.ImportPath)
		std.programs = append(std.programs, name)
		for _, d := range p.Deps {
			if m := of[d]; m != nil && !slices.Contains(m.programs, name) {
				m.programs = append(m.programs, name)
			}
		}
	}
	return modules
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)(\.(txt|md|libyaml|mit))?$`)

// licences returns the texts that must be distributed with a module.
func licences(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), " \n")+"\n")
	}
	return out
}

// kinds returns the names (SPDX) of licence texts.
func kinds(texts []string) []string {
	var out []string
	for _, text := range texts {
		flat := strings.Join(strings.Fields(text), " ")
		has := func(s string) bool { return strings.Contains(flat, s) }
		kind := ""
		switch {
		case has("Mozilla Public License") && has("2.0"):
			kind = "MPL-2.0"
		case has("Apache License") && has("Version 2.0"):
			kind = "Apache-2.0"
		case has("Redistributions") && has("Neither the name"):
			kind = "BSD-3-Clause"
		case has("Redistributions"):
			kind = "BSD-2-Clause"
		case has("Permission to use, copy, modify, and/or distribute this software"), has("Permission to use, copy, modify, and distribute this software"):
			kind = "ISC"
		}
		for _, k := range []string{kind, map[bool]string{true: "MIT"}[has("Permission is hereby granted, free of charge")]} {
			if k != "" && !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// write creates the list: a table, and each text once with the modules that have it.
func write(t *testing.T, modules map[string]*linked) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("What the programs of kops link, for linux. The source of MODULE VERSION is at https://pkg.go.dev/MODULE@VERSION,\nand with Go at hand: go mod download MODULE@VERSION.\n\n")
	owners := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		m := modules[name]
		slices.Sort(m.programs)
		found := kinds(m.texts)
		if len(found) == 0 {
			t.Errorf("the licence of %s is not one that this test knows: read it, and add it", m)
		}
		fmt.Fprintf(&b, "%s | %s | %s\n", m, strings.Join(found, " AND "), strings.Join(m.programs, " "))
		for _, text := range m.texts {
			owners[text] = append(owners[text], m.String())
		}
	}
	texts := slices.SortedFunc(maps.Keys(owners), func(x, y string) int {
		return strings.Compare(owners[x][0]+x, owners[y][0]+y)
	})
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(owners[text], "\n"), text)
	}
	return b.String()
}
