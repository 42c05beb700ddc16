// Command cpu measures the CPU time of each test. Unlike elapsed time, it does not increase on a
// busy machine.
//
//	cpu PROGRAM [ARGUMENT]...  runs the tests of a package, as `go test -exec cpu` calls it, and appends
//	                           the time of each test to the file $KOPS_CPU; it only runs them without
//	                           $KOPS_CPU, or on a system without /proc
//	cpu                        lists the tests over 20 s of CPU time and the slowest tests, and fails if a
//	                           test took more than 60 s of CPU time
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	file := os.Getenv("KOPS_CPU")
	var err error
	switch {
	case len(os.Args) > 1:
		err = run(file, os.Args[1:], os.Stdout)
	case file == "":
		err = errors.New("KOPS_CPU names no file")
	default:
		err = report(file, os.Stdout)
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() > 0 {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cpu:", err)
		os.Exit(1)
	}
}

// run runs a test program and records the time of its tests. Its output is the same
// as without this command.
func run(file string, args []string, stdout io.Writer) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = os.Stdin
	// go test caches a result only if it finds, next to the program, the list of files and variables
	// that the tests read. With -exec it does not request this list.
	cmd.Args = slices.Insert(cmd.Args, 1, "-test.testlogfile="+filepath.Join(filepath.Dir(args[0]), "testlog.txt"))
	if _, err := os.Stat("/proc/self/stat"); file == "" || err != nil || slices.ContainsFunc(args, unmeasured) {
		cmd.Stdout, cmd.Stderr = stdout, os.Stderr
		return wait(cmd)
	}
	a := newAccount(func() time.Duration { return treeTime(cmd.Process.Pid) }, time.Now)
	var out io.WriteCloser = &watcher{out: stdout, event: a.event}
	if !slices.ContainsFunc(args, isVerbose) {
		cmd.Args = slices.Insert(cmd.Args, 1, "-test.v=test2json")
		out = &quietWriter{out: stdout, event: a.event}
	}
	cmd.Stdout, cmd.Stderr = out, out
	err := wait(cmd)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if cmd.ProcessState != nil {
		a.end(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	}
	if werr := a.write(file); err == nil {
		err = werr
	}
	return err
}

// wait runs a command and passes on the signals with which go test stops it.
func wait(cmd *exec.Cmd) error {
	cmd.WaitDelay = 30 * time.Second // for children that keep its output open
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have exited
		}
	}()
	return cmd.Wait()
}

func isVerbose(arg string) bool {
	return strings.HasPrefix(arg, "-test.v=") && arg != "-test.v=false"
}

// unmeasured reports whether an argument makes a test program print something other
// than test results.
func unmeasured(arg string) bool {
	name, value, _ := strings.Cut(arg, "=")
	return value != "" && slices.Contains([]string{"-test.bench", "-test.fuzz", "-test.list"}, name)
}
