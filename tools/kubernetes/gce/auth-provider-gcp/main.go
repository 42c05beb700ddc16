// Command auth-provider-gcp authenticates the kubelet to Google's image registries as the
// service account of the machine (Kubernetes, CredentialProvider v1). Google's own program is
// not published as a module.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

type request struct {
	APIVersion string `json:"apiVersion"`
	Image      string `json:"image"`
}

type login struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type response struct {
	Kind       string           `json:"kind"`
	APIVersion string           `json:"apiVersion"`
	KeyType    string           `json:"cacheKeyType"`
	Auth       map[string]login `json:"auth"`
}

func main() {
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// answer reads a request of the kubelet, and writes the credentials for the registry of its image.
func answer(in io.Reader, out io.Writer) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	token, err := token()
	if err != nil {
		return fmt.Errorf("get a token from the metadata server: %w", err)
	}
	registry, _, _ := strings.Cut(r.Image, "/")
	return json.NewEncoder(out).Encode(response{"CredentialProviderResponse", r.APIVersion, "Registry", map[string]login{registry: {"_token", token}}})
}

func token() (string, error) {
	host := os.Getenv("GCE_METADATA_HOST")
	if host == "" {
		host = "169.254.169.254"
	}
	req, err := http.NewRequest(http.MethodGet, "http://"+host+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Metadata-Flavor", "Google")
	res, err := (&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}).Do(req) // uses no proxy
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it returned %s", res.Status)
	}
	var t struct {
		Token string `json:"access_token"`
	}
	return t.Token, json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&t)
}
