package dns

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

func TestAnEventNamesItsObject(t *testing.T) {
	var got corev1.Event
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.Method + " " + r.URL.Path
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(got)
	}))
	defer server.Close()
	core, err := corev1client.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	o := Object{"v1", "Service", "shop", "web", "u1"}
	if err := EventsOf(core, time.Now).Refused(t.Context(), o, strings.Repeat("é", maxMessage)); err != nil {
		t.Fatal(err)
	}
	about := Object{got.InvolvedObject.APIVersion, got.InvolvedObject.Kind, got.InvolvedObject.Namespace, got.InvolvedObject.Name, got.InvolvedObject.UID}
	if path != "POST /api/v1/namespaces/shop/events" || about != o || len(got.Message) > maxMessage || !strings.HasSuffix(got.Message, "é…") {
		t.Errorf("%s %+v", path, got)
	}
}
