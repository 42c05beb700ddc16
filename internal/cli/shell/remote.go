package shell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"kops.local/kops/internal/engine/redact"
	"kops.local/kops/internal/store/web"
)

// objectsTime limits how long a web server may take to send a file of objects, which is limited to
// fileSize.
const objectsTime = 30 * time.Second

// readObjects returns the contents of a file with objects: a local file, the standard input for
// "-", or one at an https:// URL or the URL of a state store.
func (a *App) readObjects(ctx context.Context, file string) ([]byte, error) {
	scheme, _, remote := strings.Cut(file, "://")
	if !remote {
		return a.ReadFile(ctx, file)
	}
	var data []byte
	var err error
	switch scheme {
	case "https":
		data, err = fetch(ctx, a.httpClient(), file)
	case "http":
		err = errors.New("it could be modified in transit; use https, or download and check it first")
	default:
		data, err = a.readStored(ctx, file)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", redact.URLs(file), err)
	}
	return data, nil
}

// fetch reads a file from a web server, but not from this computer's own services.
func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, objectsTime)
	defer cancel()
	return web.Get(ctx, client, url, fileSize)
}

// readStored reads a file at the URL of a state store.
func (a *App) readStored(ctx context.Context, url string) ([]byte, error) {
	folder, name := path.Split(url)
	if name == "" || strings.HasSuffix(folder, "://") {
		return nil, errors.New("it does not name a file; specify the URL of a state store and a file in it, such as s3://bucket/folder/cluster.yaml")
	}
	s, err := a.OpenStore(ctx, strings.TrimSuffix(folder, "/"))
	if err != nil {
		return nil, err
	}
	data, _, err := s.Get(ctx, name)
	if err == nil && len(data) > fileSize {
		err = fmt.Errorf("it is longer than %d MiB", fileSize>>20)
	}
	return data, err
}
