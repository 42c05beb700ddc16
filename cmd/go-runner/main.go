// Command go-runner runs a program and keeps what it writes in a log file.
//
//	go-runner --log-file=FILE [--also-stdout] [--redirect-stderr=false] PROGRAM [ARGUMENT...]
//
// The program's output is appended to the file, which may be truncated meanwhile
// by what rotates logs, and with --also-stdout goes to standard output too. Its
// standard error goes the same way, or stays apart with --redirect-stderr=false.
// Signals are passed on, and go-runner ends as the program does: with its status,
// or with 128 and the number of the signal that killed it.
//
// Where the environment has GO_RUNNER_WAIT_FOR=HOST:PORT/PATH, the program is
// started when that answers HTTP requests with status 200: one that ends when its
// server is not ready would be started again only after a pause that grows.
//
// It can be the first process of a container: it collects orphans.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// drainTime is how long the output of an ended program is waited for: a process
// that it left behind may keep the pipe open.
const drainTime = 2 * time.Second

// failed is the status if the program could not be run at all.
const failed = 127

type options struct {
	logFile        string
	alsoStdout     bool
	redirectStderr bool
	command        []string
}

func main() {
	status, err := run(parse())
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-runner:", err)
	}
	os.Exit(status)
}

func parse() options {
	var o options
	flag.StringVar(&o.logFile, "log-file", "", "file that the output is appended to; empty means none")
	flag.BoolVar(&o.alsoStdout, "also-stdout", false, "write the output to standard output too")
	flag.BoolVar(&o.redirectStderr, "redirect-stderr", true, "treat standard error as output; otherwise it stays standard error")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go-runner --log-file=FILE [--also-stdout] [--redirect-stderr=false] PROGRAM [ARGUMENT...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.command = flag.Args()
	return o
}

// waitVariable names the server that is waited for.
const waitVariable = "GO_RUNNER_WAIT_FOR"

// awaited returns when the server is ready, or with the signal that ends the
// waiting. No server, "", is not waited for.
func awaited(server string, signals <-chan os.Signal) os.Signal {
	const pause = 200 * time.Millisecond
	if server == "" || ready(server) {
		return nil
	}
	fmt.Fprintln(os.Stderr, "go-runner: waiting for", server)
	for !ready(server) {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGINT {
				return s
			}
		case <-time.After(pause):
		}
	}
	return nil
}

// ready asks HOST:PORT/PATH once. Only the first line of the answer matters, for
// which a library of HTTP would be most of this program.
func ready(server string) bool {
	const patience = 2 * time.Second
	address, path, _ := strings.Cut(server, "/")
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return false
	}
	defer c.Close() //nolint:errcheck // the answer was read
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return false
	}
	if _, err := fmt.Fprintf(c, "GET /%s HTTP/1.0\r\nHost: %s\r\n\r\n", path, address); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	fields := strings.Fields(line)
	return err == nil && len(fields) > 1 && fields[1] == "200"
}

// run runs the program to its end and returns its status.
func run(o options) (int, error) {
	if len(o.command) == 0 {
		return failed, errors.New("no program is named; say go-runner --log-file=FILE PROGRAM")
	}
	signals := make(chan os.Signal, 64) // from now on nothing is lost, nor ends go-runner
	signal.Notify(signals)
	if stopped := awaited(os.Getenv(waitVariable), signals); stopped != nil {
		return 128 + int(stopped.(syscall.Signal)), nil //nolint:forcetypeassert // all signals of this system are
	}
	c := exec.Command(o.command[0], o.command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	drain := func() {}
	if o.logFile != "" {
		output, wait, err := o.record()
		if err != nil {
			return failed, err
		}
		defer output.Close() //nolint:errcheck // closed already if the program runs
		c.Stdout, drain = output, wait
	}
	if o.redirectStderr {
		c.Stderr = c.Stdout
	}
	if err := c.Start(); err != nil {
		return failed, fmt.Errorf("start the program: %w", err)
	}
	if f, ok := c.Stdout.(*os.File); ok && f != os.Stdout {
		_ = f.Close() // the program has its own
	}
	go forward(signals, c.Process)
	status, err := wait(c.Process.Pid)
	drain()
	return status, err
}

// record returns what the program writes to, and what waits until all of it is kept.
func (o options) record() (*os.File, func(), error) {
	file, err := os.OpenFile(o.logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("open the log file: %w", err)
	}
	to := tee{file}
	if o.alsoStdout {
		to = append(to, os.Stdout)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, r) // a tee does not fail, and the pipe's end is the program's
	}()
	return w, func() {
		select {
		case <-done:
		case <-time.After(drainTime):
		}
	}, nil
}

// tee writes to all. If one of them fails, as on a full disk, the others still
// get everything and the program goes on.
type tee []io.Writer

func (t tee) Write(p []byte) (int, error) {
	for _, w := range t {
		_, _ = w.Write(p) // there is nowhere to tell it
	}
	return len(p), nil
}

// forward passes signals on, except those that are about go-runner itself.
func forward(signals <-chan os.Signal, to *os.Process) {
	for s := range signals {
		switch s {
		case syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGURG:
		default:
			_ = to.Signal(s) // it may have ended
		}
	}
}

// wait collects children, which for the first process are all orphans too, until
// one ends, and returns the status of that one.
func wait(pid int) (int, error) {
	for {
		var s syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &s, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return failed, fmt.Errorf("wait for the program: %w", err)
		case ended == pid && s.Signaled():
			return 128 + int(s.Signal()), nil
		case ended == pid:
			return s.ExitStatus(), nil
		}
	}
}
