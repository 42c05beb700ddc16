// Command standin stands in for third-party programs that cannot be built from modules: the
// drivers of volumes and their companions, the termination handler, the autoscaler of CoreDNS. It does
// nothing, and is healthy at every probe of the kubelet.
package main

import (
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	for _, address := range []string{":8080", ":9808", ":9809", ":22011", ":22012", ":22013"} {
		go http.ListenAndServe(address, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) //nolint:errcheck,gosec // another of these may have it, and is as healthy
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
}
