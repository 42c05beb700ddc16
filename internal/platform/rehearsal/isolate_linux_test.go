package rehearsal

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
)

// asProgram is the variable that makes the test binary act as an emulated program.
const asProgram = "KOPS_TEST_PROGRAM"

const address = "127.0.0.1:80"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("listening")
	fmt.Println(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })))
}

// A program that listens at a port is reachable from its play, and from nowhere else on this host.
func TestAProgramHasANetworkOfItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: networks are made by root")
	}
	before := network(t)
	for range 2 { // two of them may use the same port
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asProgram+"=1")
		p, err := StartProgram(t.Context(), "a program", cmd, "listening", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		client := http.Client{Transport: &http.Transport{DialContext: p.DialContext, DisableKeepAlives: true}}
		answer, err := client.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if string(text) != "secret" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		if theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.Cmd.Process.Pid)); err != nil || theirs == before {
			t.Errorf("the network of the program is %s, ours is %s: %v", theirs, before, err)
		}
	}
	if answer, err := http.Get("http://" + address); err == nil {
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if string(text) == "secret" {
			t.Error("the network of this host reaches the program")
		}
	}
	for range 100 { // none of our threads is left in another network namespace
		done := make(chan string)
		go func() { done <- network(t) }()
		if got := <-done; got != before {
			t.Fatalf("a thread is in the network %s", got)
		}
	}
}

func network(t *testing.T) string {
	t.Helper()
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Error(err)
	}
	return own
}
