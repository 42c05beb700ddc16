package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"kops.local/kops"
	"kops.local/kops/internal/engine/await"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/ops/kubeconfig"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/diag"
)

// App is one run of the program: the system, and the values of the global flags.
type App struct {
	System
	State     string // --state
	Name      string // --name
	Config    string // --config
	Verbosity int    // -v
	FullDiff  bool   // --full-diff
	// Offline means that facts come from a file, and only stores can be reached.
	Offline bool
	// Command is the command line, for the lease and the revisions.
	Command string
	// environmentWarned means that variables without effect were reported.
	environmentWarned bool
	// Running is the command that runs, once its flags are parsed.
	Running *cobra.Command
	// Mistake is an unknown command word before a request for help, or why the output is
	// incomplete; nil if there is none.
	Mistake error
	// Absent has commands of kOps, by path, that this program does not have, and what to use
	// instead.
	Absent map[string]string

	screen *text.Screen // to which Out and Err write

	lent      atomic.Bool // whether another program uses the terminal
	patient   atomic.Bool // whether an interrupted command is waited for, however long it takes
	inputRead bool        // whether the standard input was read

	mu     sync.Mutex      // guards the fields below; it must not be held while anything is written
	doing  *doing          // what is being done without output; nil if nothing
	silent map[string]bool // servers that are known not to answer
	lease  string          // name of the cluster whose lease this process holds; empty if it holds none
	// platforms are what Platforms returns; nil before it was called.
	platforms []platform.Provider
}

// New returns a run of the program on a system. Text written to Out and Err has its control
// characters escaped, so that they do not affect a terminal.
func New(s System) *App {
	a := &App{System: s}
	if a.screen = text.Plain(s.Err, s.Now); s.Terminal {
		a.screen = text.Redrawn(s.Err, s.Now, a.width)
	}
	a.Out, a.Err = a.screen.Stream(s.Out, s.Paged), a.screen.Stream(s.Err, true)
	return a
}

// Start records the command that runs, whose flags are parsed. An argument or a flag is rejected
// if it is empty and selects objects: it would select others, or all.
func (a *App) Start(c *cobra.Command) error {
	a.Running = c
	if a.Verbosity > 0 {
		a.screen.Freeze()
	}
	if a.Verbosity >= requests && a.Libraries != nil {
		var to io.Writer = withoutPasswords{a.Err}
		a.Libraries.to.Store(&to)
	}
	a.WarnDeprecated(c)
	return checkEmpty(c)
}

// selectors are the flags that select objects.
var selectors = []string{"cluster", "instance-group", "instance-group-roles", "name", "phase"}

func checkEmpty(c *cobra.Command) error {
	args := c.Flags().Args()
	if n := c.ArgsLenAtDash(); n >= 0 {
		args = args[:n]
	}
	if slices.Contains(args, "") {
		return Usagef("an argument is empty; is a variable not set?")
	}
	for _, name := range selectors {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && slices.Contains([]string{"", "[]", `[""]`}, f.Value.String()) {
			return Usagef("--%s is empty; is a variable not set?", name)
		}
	}
	return nil
}

// Code is an error that only sets the exit code; the reason was already printed.
type Code int

func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Exit codes: done or no change, error, changes pending or validation failed, rejected by a guard.
const (
	Done    Code = 0
	Failed  Code = 1
	Pending Code = 2
	Refused Code = 3
)

// UsageError is an error in the use of the command line, after which the usage is printed.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Printf writes to standard output. If that fails, the error is stored in Mistake.
func (a *App) Printf(format string, args ...any) {
	if _, err := fmt.Fprintf(a.Out, format, args...); err != nil && a.Mistake == nil {
		a.Mistake = fmt.Errorf("write the output: %w", err)
	}
}

// Notef writes messages to the user, separate from the output.
func (a *App) Notef(format string, args ...any) {
	fmt.Fprint(a.Err, Spell(fmt.Sprintf(format, args...))) //nolint:errcheck // nothing could be told
}

// StateStore returns the URL of the state store: from the flag, the environment or the config file.
func (a *App) StateStore() (string, error) {
	url := a.State
	if url == "" {
		url = a.Env("KOPS_STATE_STORE")
	}
	if url == "" {
		url = a.configuredStore()
	}
	if url == "" {
		url = a.ownStore()
	}
	if strings.TrimSpace(url) == "" {
		return "", errors.New("State Store: Required value: Please set the --state flag or export KOPS_STATE_STORE.\n" +
			"For example: a folder, export KOPS_STATE_STORE=file://$HOME/kops, or a bucket, export KOPS_STATE_STORE=s3://<bucket>")
	}
	scheme, path, ok := strings.Cut(url, "://")
	if !ok {
		if name, rest, colon := strings.Cut(url, ":"); colon && !strings.Contains(name, "/") {
			return "", fmt.Errorf("the state store %q is neither a URL nor a folder; did you mean %s://%s?", url, name, strings.TrimLeft(rest, "/"))
		}
		if scheme, path = "file", url; !isPath(url) {
			return "", fmt.Errorf("the state store %q is neither a URL nor a path; for a folder in the current folder write ./%s, for a bucket s3://%[2]s", url, strings.TrimSpace(url))
		}
	}
	if scheme == "file" && path != "" {
		return folderStore(path)
	}
	return scheme + "://" + strings.TrimSuffix(path, "/"), nil
}

// isPath reports whether a text is a path to a folder, as opposed to a bare name, which could also
// be the name of a bucket.
func isPath(s string) bool {
	return s == "." || s == ".." || strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../")
}

// ownStore is the user's own folder for the state of clusters on this machine; "" if there is none.
func (a *App) ownStore() string {
	dir := filepath.Join(a.Home, ".kops", "clusters")
	if info, err := os.Stat(dir); a.Home == "" || err != nil || !info.IsDir() {
		return ""
	}
	return "file://" + filepath.ToSlash(dir)
}

// PreferOwnStore makes the user's own folder the state store, unless another is specified. A new
// cluster on this machine needs no other.
func (a *App) PreferOwnStore() {
	if a.State == "" && a.Env("KOPS_STATE_STORE") == "" && a.configuredStore() == "" && a.Home != "" {
		a.State = "file://" + filepath.ToSlash(filepath.Join(a.Home, ".kops", "clusters"))
	}
}

// folderStore returns the URL of a folder, which is valid in any working directory, because it is
// stored.
func folderStore(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the state store: %w", err)
	}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return "", fmt.Errorf("the state store %s is a file; name a folder", path)
	}
	return "file://" + filepath.ToSlash(abs), nil
}

// configuredStore reads KOPS_STATE_STORE from the config file; an invalid file only causes a warning.
func (a *App) configuredStore() string {
	files := []string{a.Config}
	if a.Config == "" && a.Home != "" {
		files = []string{filepath.Join(a.Home, ".kops.yaml"), filepath.Join(a.Home, ".kops", "config")}
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			if a.Config != "" {
				a.Notef("warning: config file: read file: %v\n", err)
			}
			continue
		}
		url, err := storeOf(data)
		if err != nil {
			a.Notef("warning: config file %s: %v\n", f, err)
		}
		return url
	}
	return ""
}

// storeOf returns the state store in a config file; "" if it names none.
func storeOf(data []byte) (string, error) {
	const key = "KOPS_STATE_STORE"
	var doc any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return "", err
	}
	variables, ok := doc.(map[string]any)
	if !ok && doc != nil {
		return "", fmt.Errorf("is not a map of variables; write %s: s3://my-state-store", key)
	}
	url, ok := variables[key].(string)
	if !ok && variables[key] != nil {
		return "", fmt.Errorf("%s is not text; write %[1]s: s3://my-state-store", key)
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if name != key {
			return url, fmt.Errorf("%s is ignored; the only variable that is read is %s", name, key)
		}
	}
	return url, nil
}

// Kubeconfig returns the kubeconfig file that is written; "" if there is none because the user has
// no home.
func (a *App) Kubeconfig() string {
	if files := a.kubeconfigs(); len(files) > 0 {
		return files[0]
	}
	return ""
}

// kubeconfigs returns the files that the user's kubectl reads, in order of precedence.
func (a *App) kubeconfigs() []string {
	files := slices.DeleteFunc(filepath.SplitList(a.Env("KUBECONFIG")), func(f string) bool { return f == "" })
	if len(files) == 0 && a.Home != "" {
		files = append(files, filepath.Join(a.Home, ".kube", "config"))
	}
	return files
}

// ClusterName returns the cluster that a command is about: --name or the only
// argument, the environment, or the cluster of the current kubectl context.
func (a *App) ClusterName(args []string) (string, error) {
	name, err := a.ExplicitName(args)
	if err != nil || name != "" {
		return name, err
	}
	if name = a.contextCluster(); name != "" {
		a.Notef("Using cluster from kubectl context: %s\n\n", name)
		return name, nil
	}
	return "", NameRequired()
}

// contextCluster returns the cluster of kubectl's current context, or "".
func (a *App) contextCluster() string { return kubeconfig.CurrentCluster(a.kubeconfigs()...) }

// RequiredName is ClusterName without kubectl's context.
func (a *App) RequiredName(args []string) (string, error) {
	name, err := a.ExplicitName(args)
	if err == nil && name == "" {
		err = NameRequired()
	}
	return name, err
}

// NameRequired is the usage error of a command without the name of its cluster.
func NameRequired() error {
	return Usagef("--name is required; name the cluster, or set KOPS_CLUSTER_NAME")
}

// OfCluster calls f with the name of a cluster. If that does not exist, but exactly one cluster has
// an instance group with the name, that cluster is used. It must only be used for commands that
// destroy nothing.
func (a *App) OfCluster(ctx context.Context, client *kops.Client, name string, f func(cluster string) error) error {
	err := f(name)
	if !fault.Is(err, fault.Gone) {
		return err
	}
	owner, oerr := client.Clusters().OwnerOf(ctx, name)
	if oerr != nil || owner == "" {
		return err
	}
	a.Notef("%s is an instance group of cluster %s; using that cluster\n", name, owner)
	return f(owner)
}

// isGiven reports whether the command line has a flag.
func (a *App) isGiven(flag string) bool { return a.Running != nil && a.Running.Flags().Changed(flag) }

// ExplicitName is ClusterName without kubectl's context; it may be empty.
func (a *App) ExplicitName(args []string) (string, error) {
	hint := ""
	if len(args) > 0 && a.isGiven("admin") {
		if _, err := time.ParseDuration(args[len(args)-1]); err == nil {
			hint = fmt.Sprintf("; to give --admin a duration, use an equals sign: --admin=%s", args[len(args)-1])
		}
	}
	switch {
	case len(args) == 1 && hint != "":
		return "", Usagef("%s is not the name of a cluster%s", args[0], hint)
	case len(args) > 1:
		return "", Usagef("specify only one cluster: %s%s", strings.Join(args, ", "), hint)
	case len(args) == 1 && a.Name != "" && a.Name != args[0]:
		return "", Usagef("cannot specify cluster via --name and positional argument")
	case len(args) == 1:
		return args[0], nil
	case a.Name != "":
		return a.Name, nil
	}
	return a.Env("KOPS_CLUSTER_NAME"), nil
}

// Confirm asks a question; any answer but y or yes, and the end of the input, mean no. The end of
// ctx is an error.
func (a *App) Confirm(ctx context.Context, question string) (bool, error) {
	a.Notef("%s (y/N) ", question)
	line, err := await.Result(ctx, func() (string, error) { return bufio.NewReader(a.In).ReadString('\n') })
	if ctx.Err() != nil {
		a.Notef("\n")
		return false, ctx.Err()
	}
	a.screen.Answered()
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	if errors.Is(err, io.EOF) && line == "" {
		a.Notef("\nStandard input ended without an answer; assuming no. To continue without a question, add --yes.\n")
		return false, nil
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// Client opens the state store and returns a client for this run.
func (a *App) Client(ctx context.Context) (*kops.Client, error) {
	url, err := a.StateStore()
	if err != nil {
		return nil, err
	}
	a.warnEnvironment()
	return kops.New(ctx, a.clientConfig(url))
}

// Open returns the cluster that a command is about, and a client for it.
func (a *App) Open(ctx context.Context, args []string) (string, *kops.Client, error) {
	name, err := a.ClusterName(args)
	if err != nil {
		return "", nil, err
	}
	client, err := a.Client(ctx)
	return name, client, err
}

// PrintError writes an error as the user should see it, and the warnings that were found with it.
func (a *App) PrintError(err error) {
	var code Code
	if errors.As(err, &code) {
		return
	}
	if list, ok := err.(diag.List); ok { //nolint:errorlint // as in splitErrors
		a.Warn(slices.DeleteFunc(slices.Clone(list), func(f diag.Finding) bool { return !f.Warning }))
	}
	if all := splitErrors(err); len(all) > 1 {
		for _, message := range all {
			if !strings.HasPrefix(message, "  ") { // else it is a detail of the message above
				message = "Error: " + message
			}
			a.Notef("%s\n", message)
		}
		return
	}
	a.Notef("Error: %s%s\n", err, remedyOf(err))
}

// remedyOf returns the end of a message: the remedy of an error, unless its text contains it.
func remedyOf(err error) string {
	r := fault.Remedy(err)
	if r == "" || strings.Contains(err.Error(), r) || errors.As(err, new(*shownError)) {
		return ""
	}
	return "; " + r
}

// splitErrors returns the messages of errors that were merely joined, and of findings.
func splitErrors(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // one that is wrapped belongs to the text around it
	if !ok {
		var list diag.List
		if !errors.As(err, &list) {
			return []string{err.Error()}
		}
		before, ok := strings.CutSuffix(err.Error(), list.Error())
		all := list.Errors()
		if !ok || len(all) == 0 {
			return []string{err.Error()}
		}
		all[0] = before + all[0]
		all[len(all)-1] += remedyOf(err)
		return all
	}
	var all, texts []string
	for _, e := range joined.Unwrap() {
		all, texts = append(all, splitErrors(e)...), append(texts, e.Error())
	}
	if strings.Join(texts, "\n") != err.Error() {
		return []string{err.Error()}
	}
	return all
}

// Cobra returns a command whose help has the same layout as all others: a line on what it does, a
// longer description, and examples.
func Cobra(use, short, long, examples string, run func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: strings.TrimSpace(long), Example: strings.Trim(examples, "\n"),
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), args) },
	}
}
