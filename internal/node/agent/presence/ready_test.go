package presence_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A changed machine is ready when its kubelet has reported since its start, and its
// static pods were started after their manifests were written.
func TestAChangedMachineIsReady(t *testing.T) {
	type object = map[string]any
	start := time.Unix(1e9, 0)
	heartbeat, running, ready := start.Add(-time.Minute), start.Add(-time.Minute), "False"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = object{"metadata": object{"name": "n"}, "status": object{"conditions": []object{{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat.UTC()}}}}
		if strings.HasPrefix(r.URL.Path, "/api/v1/pods") {
			answer = object{"items": []object{{"metadata": object{"name": "proxy-n", "namespace": "kube-system"}, "status": object{
				"conditions":        []object{{"type": "Ready", "status": ready, "lastHeartbeatTime": nil}},
				"containerStatuses": []object{{"name": "c", "state": object{"running": object{"startedAt": running.UTC()}}}}}}}}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	m := newMachine(t, "n", s.URL)
	m.state.Started = start
	manifest := filepath.Join(m.check.Root, "etc/kubernetes/manifests/proxy.manifest")
	if err := os.MkdirAll(filepath.Dir(manifest), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, []byte("metadata: {name: proxy, namespace: kube-system}\nspec: {containers: [{name: c}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(manifest, start, start); err != nil {
		t.Fatal(err)
	}
	m.now = start.Add(time.Second)
	waits := func(says string) {
		t.Helper()
		waited := 0
		err := m.check.Ready(t.Context(), func(context.Context, time.Duration) error { waited++; return context.Canceled })
		if says == "" && (err != nil || waited > 0) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("it waited %d times: %v, want %q", waited, err, says)
		}
	}
	waits("has not reported")
	heartbeat = start
	waits("proxy is not ready")
	ready = "True"
	waits("the container c of the static pod proxy was not started")
	running = start
	waits("")
	running, m.now = start.Add(-time.Minute), start.Add(3*time.Minute) // nothing in its manifest had changed
	waits("")
	m.now = start
	running = start.Add(-time.Minute)
	tries := 0
	err := m.check.Ready(t.Context(), func(_ context.Context, d time.Duration) error { tries++; m.now = m.now.Add(d); return nil })
	if err != nil || tries != 60 { // two minutes at two-second intervals
		t.Errorf("after %d tries: %v", tries, err)
	}
}
