package node

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/azure/spec"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/azureblob/azuretest"
)

// identity is the metadata service of a machine, at its real address.
type identity struct {
	asked  int
	status int
}

func (i *identity) RoundTrip(r *http.Request) (*http.Response, error) {
	i.asked++
	answer := httptest.NewRecorder()
	q := r.URL.Query()
	if r.URL.Host != "169.254.169.254" || r.URL.Path != "/metadata/identity/oauth2/token" || r.Header.Get("Metadata") != "true" || q.Get("api-version") == "" || i.status != 0 {
		answer.WriteHeader(max(i.status, http.StatusBadRequest))
		return answer.Result(), nil
	}
	_, _ = fmt.Fprintf(answer, `{"access_token": %q, "expires_in": "3599", "expires_on": "%d", "resource": %q, "token_type": "Bearer"}`, azuretest.AccessToken(q.Get("resource")), time.Now().Unix()+3599, q.Get("resource")) // the test would fail
	return answer.Result(), nil
}

func TestAMachineOpensBlobsWithItsIdentity(t *testing.T) {
	server := azuretest.StartTLS(t)
	server.Container(t, "state", "")
	env := map[string]string{"AZURE_STORAGE_SERVICE_ENDPOINT": server.URL}
	who := &identity{}
	w := onmachine.World{Env: func(name string) string { return env[name] }, Direct: &http.Client{Transport: who}}
	open := func() store.Store {
		t.Helper()
		s, err := Platform().Backends(w, server.HTTP).Open(t.Context(), "azureblob://"+azuretest.Account+"/state/c")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if _, err := s.Put(t.Context(), "a", []byte("b"), store.PutOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Get(t.Context(), "a"); string(got) != "b" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if who.asked != 1 {
		t.Errorf("the metadata service was asked %d times", who.asked)
	}
	who.status = http.StatusNotFound
	if _, _, err := open().Get(t.Context(), "a"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "the machine has no identity") || !strings.Contains(fault.Remedy(err), "managed identity") {
		t.Errorf("a machine without an identity: %v; %s", err, fault.Remedy(err))
	}
}

func TestTheCloudOfAMachineIsInItsEnvironment(t *testing.T) {
	kept := Platform().Environment
	for _, v := range spec.Platform().Traits.Store.Variables {
		if !strings.Contains(strings.Join(kept, " ")+" ", v+" ") {
			t.Errorf("%s is not kept for later boots", v)
		}
	}
	for environment, want := range map[string]string{"": "a.blob.core.windows.net", "AzureChinaCloud": "a.blob.core.chinacloudapi.cn", "AzureUSGovernmentCloud": "a.blob.core.usgovcloudapi.net"} {
		w := onmachine.World{Env: func(name string) string { return map[string]string{"AZURE_ENVIRONMENT": environment}[name] }}
		s, err := Platform().Backends(w, nil).Open(t.Context(), "azureblob://a/c")
		if err != nil {
			t.Fatal(err)
		}
		if at, err := url.Parse(s.About().Web()); err != nil || at.Host != want {
			t.Errorf("in the cloud %q, it is at %v, %v", environment, at, err)
		}
	}
}
