package cli

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kops.local/kops/internal/cli/shell"
)

// tree is every command, by its path, as it is with some feature flags on.
func tree(features string) map[string]*cobra.Command {
	env := map[string]string{"KOPS_FEATURE_FLAGS": features}
	root := command(&shell.App{System: shell.System{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		Env: func(k string) string { return env[k] }, Now: time.Now, Version: "1.37.0"}})
	all := map[string]*cobra.Command{}
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		all[c.CommandPath()] = c
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(root)
	return all
}

// everyFeature turns on each flag that adds to the command line.
const everyFeature = "APIServerNodes,Azure,ClusterAddons,DiscoveryService,EnableSeparateConfigBase,ExperimentalRoles,Spotinst"

// TestEveryOptionIsAFlag looks for the flags by which the options of the library are spelled.
func TestEveryOptionIsAFlag(t *testing.T) {
	known := map[string]bool{}
	for _, c := range tree(everyFeature) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
	}
	for option, flag := range shell.Flags() {
		if !known[flag] {
			t.Errorf("the option %s is spelled --%s, which no command has", option, flag)
		}
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	for path, c := range tree(everyFeature) {
		if strings.HasPrefix(path, "kops completion") {
			continue // of the library
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: its short text is %q; a line without a final stop is needed", path, c.Short)
		}
		if c.Runnable() && !c.HasSubCommands() && (c.Long == "" || c.Example == "") {
			t.Errorf("%s needs a description and examples", path)
		}
		for line := range strings.Lines(c.UsageString()) {
			if n := utf8.RuneCountInString(line); n > 110 {
				t.Errorf("%s: a line of its help takes %d columns: %s", path, n, line)
			}
		}
		if c.Example == "" {
			t.Errorf("%s needs an example", path)
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			if line != "" && !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the line %q of its examples is not indented", path, line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s needs a text", path, f.Name)
			}
		})
	}
}

// TestExamplesAreCommandLines reads every example line that runs kops: its
// command and its flags exist.
func TestExamplesAreCommandLines(t *testing.T) {
	read := 0
	for path, c := range tree("") {
		read += checkLines(t, path, c.Example)
	}
	if read < 40 {
		t.Errorf("only %d examples were read", read)
	}
}

// TestPagesAreCommandLines reads what the pages of documentation run, alike.
func TestPagesAreCommandLines(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```") {
			if i%2 == 1 { // between fences
				read += checkLines(t, page, comment.ReplaceAllString(block, ""))
			}
		}
	}
	if read < 20 {
		t.Errorf("only %d lines were read", read)
	}
}

// comment is one of a shell, at the end of a line.
var comment = regexp.MustCompile(`(?m)\s#.*$`)

// checkLines checks the lines of a text that run kops, and returns how many there are.
func checkLines(t *testing.T, where, text string) (read int) {
	t.Helper()
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		for part := range strings.SplitSeq(line, "|") {
			words := strings.Fields(part)
			for len(words) > 0 && strings.Contains(words[0], "=") {
				words = words[1:] // a variable, whose value may have a space
				if len(words) > 0 && strings.HasSuffix(words[0], `"`) {
					words = words[1:]
				}
			}
			if len(words) == 0 || words[0] != "kops" {
				continue
			}
			if i := slices.Index(words, ">"); i > 0 {
				words = words[:i]
			}
			read++
			found, rest, err := tree("")["kops"].Find(words[1:])
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s: %q: %v", where, part, err)
			}
		}
	}
	return read
}

// line is one line of cli.tsv: a command, or a flag of one, as kOps has it.
type line struct {
	command, aliases, flag, short, kind, value, noOption, notes string
}

func lines(t *testing.T) []line {
	t.Helper()
	data, err := os.ReadFile("testdata/cli.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var out []line
	for text := range strings.SplitSeq(strings.TrimRight(string(data), "\n"), "\n") {
		f := append(strings.Split(text, "\t"), "", "", "", "", "", "", "")
		out = append(out, line{f[0], f[1], strings.TrimPrefix(f[2], "--"), strings.TrimPrefix(f[3], "-"), f[4], f[5], f[6], f[7]})
	}
	return out[1:]
}

// exceptions are flags that differ from kOps' on purpose, with the reason.
func exceptions() map[string]string {
	return map[string]string{
		"kops --config":                   "the default is a text for people",
		"kops --v":                        "a number; the levels of another logging library have no meaning here",
		"kops --alsologtostderrthreshold": "of another logging library: accepted, and without effect",
	}
}

func isAbsent(command string) bool {
	return slices.ContainsFunc(absent(), func(l string) bool { return command == l || strings.HasPrefix(command, l+" ") })
}

func TestCommandsAndFlagsAreThoseOfKops(t *testing.T) {
	plain, full := tree(""), tree(everyFeature)
	checked := 0
	for _, l := range lines(t) {
		if isAbsent(l.command) {
			continue
		}
		c := full[l.command]
		if c == nil {
			t.Errorf("%s is missing", l.command)
			continue
		}
		for alias := range strings.SplitSeq(l.aliases, ", ") {
			if alias != "" && alias != c.Name() && !c.HasAlias(alias) {
				t.Errorf("%s lacks the alias %s", l.command, alias)
			}
		}
		if l.flag == "" {
			continue
		}
		checked++
		checkFlag(t, c, l)
		if flag := plain[l.command].Flag(l.flag); l.notes == "feature-flag" && flag != nil {
			t.Errorf("%s --%s is there without its feature flag", l.command, l.flag)
		}
	}
	if checked < 140 {
		t.Errorf("only %d flags were checked", checked)
	}
}

func checkFlag(t *testing.T, c *cobra.Command, l line) {
	t.Helper()
	name := l.command + " --" + l.flag
	f := c.Flag(l.flag)
	if f == nil {
		t.Errorf("%s is missing", name)
		return
	}
	if f.Shorthand != l.short {
		t.Errorf("%s has the short name %q, want %q", name, f.Shorthand, l.short)
	}
	if strings.HasPrefix(l.notes, "deprecated") != (f.Hidden && f.Annotations != nil) {
		t.Errorf("%s: hidden and deprecated: %v, but kOps says %q", name, f.Hidden, l.notes)
	}
	if exceptions()[name] != "" {
		return
	}
	kind := map[string]string{"stringSlice": "strings"}[f.Value.Type()]
	if kind == "" {
		kind = f.Value.Type()
	}
	if kind != l.kind {
		t.Errorf("%s is of type %s, want %s", name, kind, l.kind)
	}
	if want := strings.Trim(l.value, `"`); f.DefValue != want {
		t.Errorf("%s has the default %q, want %q", name, f.DefValue, want)
	}
	if l.kind != "bool" && f.NoOptDefVal != l.noOption {
		t.Errorf("%s has %q without a value, want %q", name, f.NoOptDefVal, l.noOption)
	}
}

func TestAbsentCommandsAreNotThere(t *testing.T) {
	all := tree(everyFeature)
	known := map[string]bool{}
	for _, l := range lines(t) {
		known[l.command] = true
	}
	for _, l := range absent() {
		if all[l] != nil {
			t.Errorf("%s is there, so take it out of the list", l)
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(known)), func(k string) bool { return k == l || strings.HasPrefix(k, l+" ") }) {
			t.Errorf("%s is no command of kOps", l)
		}
	}
}

func TestAnInterruptIsNoRiddle(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	env := map[string]string{"KOPS_STATE_STORE": "s3://bucket", "S3_ENDPOINT": "http://127.0.0.1:1", "S3_ACCESS_KEY_ID": "me", "S3_SECRET_ACCESS_KEY": "x"}
	var out, errs bytes.Buffer
	code := Run(ctx, shell.System{In: &bytes.Buffer{}, Out: &out, Err: &errs, Env: func(k string) string { return env[k] }, Now: time.Now, Version: "1.37.0"}, []string{"get", "clusters"})
	if code != killed || out.Len() > 0 || errs.String() != "Error: interrupted\n" {
		t.Errorf("%d, %q, %q", code, out.String(), errs.String())
	}
}

// Help offers what works here: no flag of a cloud that is not there.
func TestHelpOffersNoOtherClouds(t *testing.T) {
	usage := tree("")["kops create cluster"].UsageString()
	for _, word := range []string{"OpenStack", "GCE", "gce"} {
		if strings.Contains(usage, word) {
			t.Errorf("the help of create cluster has %s:\n%s", word, usage)
		}
	}
	if all := shell.OneOf(shell.Names((&shell.App{System: shell.System{Env: func(string) string { return "" }}}).Platforms())); !strings.Contains(usage, "cloud: "+all) {
		t.Error("the help does not say which clouds there are")
	}
}
