// Command pause holds the namespaces of a pod: it does nothing until it is asked to exit. If the
// pod's containers share its process namespace it is the init process there, and reaps the
// orphans.
//
//	pause [-v]
//
// It stays as small as it can: it runs once for every pod.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

// version is set when a release is built.
var version = "1.37.0-dev"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-v" {
		_, _ = os.Stdout.WriteString("pause " + version + "\n") // there is nowhere to report a failure
		return
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	died := make(chan os.Signal, 1) // one is enough: each time, all are reaped
	signal.Notify(died, syscall.SIGCHLD)
	for {
		collect()
		select {
		case <-end:
			return
		case <-died:
		}
	}
}

// collect reaps every child that has exited.
func collect() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR && pid <= 0 {
			return
		}
	}
}
