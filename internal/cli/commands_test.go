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
	"kops.local/kops/internal/spec/diag"
)

// tree returns every command by its path, with some feature flags on.
func tree(features string) map[string]*cobra.Command {
	env := map[string]string{"KOPS_FEATURE_FLAGS": features}
	root := command(shell.New(shell.System{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		Env: func(k string) string { return env[k] }, Now: time.Now, Version: "1.37.0"}))
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

// everyFeature turns on every feature flag that adds to the command line.
const everyFeature = "APIServerNodes,Azure,ClusterAddons,DiscoveryService,EnableSeparateConfigBase,ExperimentalRoles,Spotinst"

// TestEveryOptionIsAFlag looks for the flags that correspond to the options of the library.
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
			continue // an option of the library only
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

// TestExamplesAreCommandLines checks that the commands and flags in all example lines that run kops
// exist.
func TestExamplesAreCommandLines(t *testing.T) {
	read := 0
	for path, c := range tree("") {
		read += checkLines(t, path, comment.ReplaceAllString(c.Example, ""))
	}
	if read < 40 {
		t.Errorf("only %d examples were read", read)
	}
}

// TestPagesAreCommandLines checks the same for the command lines in the documentation, and for
// commands named in sentences.
func TestPagesAreCommandLines(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	run, named := 0, 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```") {
			if i%2 == 1 { // code between fences
				run += checkLines(t, page, comment.ReplaceAllString(block, ""))
				continue
			}
			for _, code := range inline.FindAllStringSubmatch(block, -1) {
				if words := words(code[1]); words[0] == "kops" && checkLine(t, page, words) != nil {
					named++
				}
			}
		}
	}
	if run < 100 || named < 50 {
		t.Errorf("only %d lines were read, and %d names of commands", run, named)
	}
}

var (
	// comment matches a shell comment at the end of a line.
	comment = regexp.MustCompile(`(?m)\s#.*$`)
	// inline matches code in a sentence.
	inline = regexp.MustCompile("`([^`]+)`")
	// option matches a flag in the usage of a command, with its value.
	option = regexp.MustCompile(` --?[a-z-]+ [A-Z]+`)
	// word matches a word of a shell, in which quotes keep spaces.
	word = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`)
)

func words(line string) []string { return word.FindAllString(line, -1) }

// checkLines checks the lines of a text that run kops, and returns their number.
func checkLines(t *testing.T, where, text string) (read int) {
	t.Helper()
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		rest := words(line)
		for len(rest) > 0 {
			end := slices.IndexFunc(rest, func(w string) bool { return slices.Contains([]string{"|", "&&", "||", ";"}, w) })
			part := rest
			if rest = nil; end >= 0 {
				part, rest = part[:end], part[end+1:]
			}
			for len(part) > 0 && strings.Contains(part[0], "=") {
				part = part[1:] // skip a variable
			}
			if len(part) == 0 || part[0] != "kops" {
				continue
			}
			read++
			if c := checkLine(t, where, part); c != nil {
				checkArguments(t, where, part, c)
			}
		}
	}
	return read
}

// checkLine returns the command that a line runs, with its flags parsed; nil if the command, or a
// flag, does not exist.
func checkLine(t *testing.T, where string, line []string) *cobra.Command {
	t.Helper()
	if i := slices.IndexFunc(line, func(w string) bool { return w == ">" || w == "<" }); i > 0 {
		line = line[:i]
	}
	root := tree("")["kops"]
	root.InitDefaultHelpCmd()
	c, rest, err := root.Find(line[1:])
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err != nil {
		t.Errorf("%s: %q: %v", where, strings.Join(line, " "), err)
		return nil
	}
	if args := c.Flags().Args(); len(args) > 0 && c.HasAvailableSubCommands() {
		for name := range strings.SplitSeq(args[0], "|") { // bash|zsh
			if of, _, err := c.Find([]string{name}); err != nil || of == c {
				t.Errorf("%s: %q: %s has no command %s", where, strings.Join(line, " "), c.CommandPath(), name)
				return nil
			}
		}
	}
	return c
}

// checkArguments compares the arguments of a line with the command's usage: CLUSTER is required,
// [CLUSTER] is optional, NAME... may be more than one.
func checkArguments(t *testing.T, where string, line []string, c *cobra.Command) {
	t.Helper()
	use := option.ReplaceAllString(c.Use, "")
	if strings.ContainsAny(use, "{-") {
		return // its usage has a format of its own
	}
	least, most := 0, 0
	for _, w := range words(use)[1:] {
		if !strings.HasPrefix(w, "[") {
			least++
		}
		if most++; strings.HasSuffix(strings.TrimSuffix(w, "]"), "...") {
			most = 1000
		}
	}
	if n := len(c.Flags().Args()); n < least || n > most {
		t.Errorf("%s: %q has %d arguments, and the command is %q", where, strings.Join(line, " "), n, c.UseLine())
	}
}

// TestEveryCommandIsInterrupted checks that testdata/interrupted.tsv states for each command how
// its reaction to ^C is tested: by a scene of cmd/kops' TestAtATerminal, or why it needs none.
func TestEveryCommandIsInterrupted(t *testing.T) {
	data, err := os.ReadFile("testdata/interrupted.tsv")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for text := range strings.Lines(string(data)) {
		command, how, _ := strings.Cut(strings.TrimSpace(text), "\t")
		if said[command] || how == "" {
			t.Errorf("%q says nothing, or repeats a line", text)
		}
		said[command] = true
	}
	delete(said, "command") // the header
	for path, c := range tree(everyFeature) {
		if !c.Runnable() || c.Annotations[onlyCommands] != "" || strings.HasPrefix(path, "kops completion") || path == "kops help" {
			continue
		}
		if !said[path] {
			t.Errorf("%s is not in testdata/interrupted.tsv: add how it answers ^C, and its scene if it changes something", path)
		}
		delete(said, path)
	}
	for path := range said {
		t.Errorf("testdata/interrupted.tsv has %s, which is no command", path)
	}
}

// line is one line of cli.tsv: a command of kOps, or one of its flags.
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

// knownDifferences returns flags that differ from kOps' on purpose, with the reason.
func knownDifferences() map[string]string {
	return map[string]string{
		"kops --config":                   "the default is a text for people",
		"kops --v":                        "a number; the levels of another logging library have no meaning here",
		"kops --alsologtostderrthreshold": "of another logging library: accepted, and without effect",
	}
}

func isAbsent(command string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(absentCommands())), func(l string) bool { return command == l || strings.HasPrefix(command, l+" ") })
}

func TestCommandsAndFlagsMatchKops(t *testing.T) {
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
	if knownDifferences()[name] != "" {
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
	for l := range absentCommands() {
		if all[l] != nil {
			t.Errorf("%s is there, so take it out of the list", l)
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(known)), func(k string) bool { return k == l || strings.HasPrefix(k, l+" ") }) {
			t.Errorf("%s is no command of kOps", l)
		}
	}
}

func TestAnInterruptIsExplained(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	env := map[string]string{"KOPS_STATE_STORE": "s3://bucket", "S3_ENDPOINT": "http://127.0.0.1:1", "S3_ACCESS_KEY_ID": "me", "S3_SECRET_ACCESS_KEY": "x"}
	var out, errs bytes.Buffer
	code := Run(ctx, shell.System{In: &bytes.Buffer{}, Out: &out, Err: &errs, Env: func(k string) string { return env[k] }, Now: time.Now, Version: "1.37.0"}, []string{"get", "clusters"})
	if code != killed || out.Len() > 0 || errs.String() != "Error: interrupted\n" {
		t.Errorf("%d, %q, %q", code, out.String(), errs.String())
	}
}

// Help only offers what works here: no flags of clouds that are not built in.
func TestHelpOffersNoOtherClouds(t *testing.T) {
	usage := tree("")["kops create cluster"].UsageString()
	for _, word := range []string{"OpenStack", "Hetzner", "openstack"} {
		if strings.Contains(usage, word) {
			t.Errorf("the help of create cluster has %s:\n%s", word, usage)
		}
	}
	if all := diag.Or(shell.Names((&shell.App{System: shell.System{Env: func(string) string { return "" }}}).Platforms())); !strings.Contains(usage, "cloud: "+all) {
		t.Error("the help does not say which clouds there are")
	}
}
