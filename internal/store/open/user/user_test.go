package user_test

import (
	"net/http"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/azureblob/azuretest"
	"kops.local/kops/internal/store/open/user"
)

func backends(env map[string]string) store.Backends {
	return user.Backends(func(name string) string { return env[name] }, http.DefaultClient)
}

func TestUsersOpenWhatNoMachineDoes(t *testing.T) {
	server := azuretest.Start(t)
	server.Container(t, "state", "")
	s, err := backends(map[string]string{"AZURE_STORAGE_SERVICE_ENDPOINT": server.URL, "AZURE_STORAGE_KEY": server.Key}).Open(t.Context(), "azureblob://"+azuretest.Account+"/state/c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "a", []byte("b"), store.PutOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Get(t.Context(), "a"); string(got) != "b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for url, c := range map[string]struct {
		env           map[string]string
		error, remedy string
	}{
		"azureblob://container/key":   {map[string]string{"AZURE_STORAGE_ACCOUNT": "a"}, "AZURE_STORAGE_ACCOUNT is set", "unset AZURE_STORAGE_ACCOUNT"},
		"azureblob://account/c":       {map[string]string{"AZURE_STORAGE_KEY": "not in base64!"}, "the key of the account is not in base64", "set AZURE_STORAGE_KEY"},
		"swift://container":           {map[string]string{"OPENSTACK_CREDENTIAL_FILE": "/absent"}, "OS_AUTH_URL is not set, and /absent cannot be read", "set OS_AUTH_URL"},
		"https://example.com/state":   {nil, "a web server is read-only", "in a bucket"},
		"azure://account/container/c": {nil, "unknown", "use one of azureblob://, do://, file://, gs://, hos://, linode://, s3://, scw://, swift://"},
	} {
		s, err := backends(c.env).Open(t.Context(), url)
		if err == nil {
			_, err = s.Put(t.Context(), "a", nil, store.PutOptions{})
		}
		if err == nil || !strings.Contains(err.Error(), c.error) || !strings.Contains(fault.Remedy(err), c.remedy) {
			t.Errorf("%s: %v; %s", url, err, fault.Remedy(err))
		}
	}
}
