package rehearsal

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// domain is the domain of all Google services.
const domain = ".googleapis.com"

// isServiceHost reports whether a host is one of Google's services. Image registries are not.
func isServiceHost(host string) bool { return strings.HasSuffix(host, domain) }

// services serves all services, and wakes the keeper after requests that may change anything.
func (p *play) services() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "oauth2.") && r.URL.Path == "/token" {
			serveToken(w)
			return
		}
		p.emulator.ServeHTTP(w, r)
		if r.Method != http.MethodGet && !strings.HasPrefix(r.Host, "storage.") {
			p.keeper.Trigger()
		}
	})
}

// serveToken issues a token to every caller: accounts' permissions are not enforced.
func serveToken(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "rehearsal", "expires_in": 3600, "token_type": "Bearer"}) // if it fails, the client is gone
}

// environment gives the user's programs credentials for the project.
func (p *play) environment() []string {
	file := filepath.Join(p.dir, "credentials.json")
	text, err := json.Marshal(map[string]string{"type": "authorized_user", "client_id": "rehearsal", "client_secret": "rehearsal", "refresh_token": "rehearsal"})
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		p.log.Error("write the credentials of the rehearsal", "error", err)
	}
	return []string{"GOOGLE_APPLICATION_CREDENTIALS=" + file, "CLOUDSDK_CORE_PROJECT=" + Project, "GOOGLE_CLOUD_PROJECT=" + Project,
		"GOOGLE_CREDENTIALS", "CLOUDSDK_CONFIG", "STORAGE_EMULATOR_HOST", "KOPS_GCE_ENDPOINT", "GCE_METADATA_HOST"}
}

// metadata returns the metadata server. As at Google, it identifies the caller only by address.
func (p *play) metadata() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := p.room.Caller(w, r)
		if !ok {
			return
		}
		i := p.desired.machines()[name]
		p.emulator.Metadata(i.Project, i.Zone, i.Name).ServeHTTP(w, r)
	})
}
