// Command go-runner runs a program and stores its output in a log file.
//
//	go-runner --log-file=FILE [--also-stdout] [--redirect-stderr=false] PROGRAM [ARGUMENT...]
//
// The program's output is appended to the file, which log rotation may truncate
// meanwhile, and with --also-stdout also written to standard output. Its standard
// error is treated the same way, or stays separate with --redirect-stderr=false.
// Signals are passed on, and go-runner exits like the program: with its status,
// or with 128 plus the number of the signal that killed it.
//
// If the environment has GO_RUNNER_WAIT_FOR=HOST:PORT/PATH, the program is
// started once that URL answers with status 200: a program that exits because its
// server is not ready would be restarted only after an increasing back-off.
//
// It can be the init process of a container: it reaps orphans.
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

// drainTime is how long to wait for the output of an exited program: a process
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

// waitVariable names the server to wait for.
const waitVariable = "GO_RUNNER_WAIT_FOR"

// awaitReady returns when the server is ready, or with the signal that interrupts the
// wait. If server is "", it does not wait.
func awaitReady(server string, signals <-chan os.Signal) os.Signal {
	const pause = 200 * time.Millisecond
	if server == "" || isReady(server) {
		return nil
	}
	fmt.Fprintln(os.Stderr, "go-runner: waiting for", server)
	for !isReady(server) {
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

// isReady requests HOST:PORT/PATH once. Only the first line of the response matters;
// an HTTP library would be most of this program.
func isReady(server string) bool {
	const patience = 2 * time.Second
	address, path, _ := strings.Cut(server, "/")
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return false
	}
	defer c.Close() //nolint:errcheck // the response was read
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

// run runs the program until it exits and returns its status.
func run(o options) (int, error) {
	if len(o.command) == 0 {
		return failed, errors.New("no program given; use go-runner --log-file=FILE PROGRAM")
	}
	signals := make(chan os.Signal, 64) // from now on no signal is lost, or terminates go-runner
	signal.Notify(signals)
	if stopped := awaitReady(os.Getenv(waitVariable), signals); stopped != nil {
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

// record returns the file for the program's output, and a function that waits until all of it is stored.
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

// tee writes to all writers. If one of them fails, as on a full disk, the others still
// receive everything and the program continues.
type tee []io.Writer

func (t tee) Write(p []byte) (int, error) {
	for _, w := range t {
		_, _ = w.Write(p) // there is nowhere to report it
	}
	return len(p), nil
}

// forward passes signals on, except those that are about go-runner itself.
func forward(signals <-chan os.Signal, to *os.Process) {
	for s := range signals {
		switch s {
		case syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGURG:
		default:
			_ = to.Signal(s) // it may have exited
		}
	}
}

// wait reaps children, which for the init process include all orphans, until pid
// exits, and returns its status.
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
