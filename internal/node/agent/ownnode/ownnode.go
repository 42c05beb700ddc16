// Package ownnode gives access to the machine's own Node as its kubelet may see and change
// it: it calls the API with the kubelet's own rights, which other programs on the machine
// do not have.
//
// It must not know what is looked for on the node, nor why it is changed.
package ownnode

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/node/host"
)

// Node holds the fields of a Node that machines use.
type Node struct {
	Metadata struct {
		Name, UID, ResourceVersion string
		Annotations                map[string]string
	}
	Spec   struct{ PodCIDRs []string }
	Status struct{ Conditions []Condition }
}

// Condition is a condition of a node or a pod; only a node's has a heartbeat.
type Condition struct {
	Type, Status      string
	LastHeartbeatTime time.Time
}

// Pod holds the fields of a pod that machines use.
type Pod struct {
	Metadata struct{ Name, Namespace string }
	Spec     struct{ HostNetwork bool }
	Status   struct {
		PodIP             string
		Conditions        []Condition
		ContainerStatuses []struct {
			Name  string
			State struct {
				Running *struct{ StartedAt time.Time }
			}
		}
	}
}

// Client calls the API on behalf of one machine.
type Client struct {
	// Node is the name of the machine's node, Server the URL of the API.
	Node, Server string
	http         *http.Client
}

// nodeUser is the prefix of the user name with which a kubelet calls the API.
const nodeUser = "system:node:"

// Open returns the client of the machine whose file system is at root, or nil if its kubelet has
// no kubeconfig yet. The caller must close it.
func Open(root, kubeconfig string) (*Client, error) {
	server, config, err := host.ReadKubeconfig(filepath.Join(root, kubeconfig))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	name, ok := strings.CutPrefix(config.Certificates[0].Leaf.Subject.CommonName, nodeUser)
	if !ok {
		return nil, fmt.Errorf("the certificate in %s belongs to %q, which is not a node", kubeconfig, config.Certificates[0].Leaf.Subject.CommonName)
	}
	return New(name, server, config), nil
}

// New returns the client for a node at a server, which it calls with config.
func New(node, server string, config *tls.Config) *Client {
	return &Client{Node: node, Server: server, http: &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}}}} // a watch may be silent for hours
}

// Close closes the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// timeout limits one call.
const timeout = 10 * time.Second

// Get returns the node, or nil if the API server answers that it does not exist.
func (c *Client) Get(ctx context.Context) (*Node, error) {
	n := &Node{}
	there, err := c.Call(ctx, http.MethodGet, c.path(), nil, n)
	if err != nil || !there {
		return nil, err
	}
	return n, nil
}

// Annotate sets annotations on a node that was read before; it does not change another node of the same
// name.
func (c *Client) Annotate(ctx context.Context, n *Node, annotations map[string]string) error {
	patch := map[string]any{"metadata": map[string]any{"uid": n.Metadata.UID, "annotations": annotations}}
	there, err := c.Call(ctx, http.MethodPatch, c.path(), patch, nil)
	if err == nil && !there {
		err = errors.New("it no longer exists")
	}
	if err != nil {
		return fmt.Errorf("annotate the node %s: %w", c.Node, err)
	}
	return nil
}

// Pods returns the pods of the node.
func (c *Client) Pods(ctx context.Context) ([]Pod, error) {
	var pods struct{ Items []Pod }
	_, err := c.Call(ctx, http.MethodGet, "/api/v1/pods?fieldSelector="+url.QueryEscape("spec.nodeName="+c.Node), nil, &pods)
	return pods.Items, err
}

func (c *Client) path() string { return "/api/v1/nodes/" + url.PathEscape(c.Node) }

// Call sends a request to the API and reports whether the object exists. Only the API server's
// own answer counts as no. A body is sent as a merge patch.
func (c *Client) Call(ctx context.Context, method, path string, body, into any) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return false, err
	}
	var status struct{ Kind, Reason, Message string }
	if resp.StatusCode == http.StatusNotFound && json.Unmarshal(text, &status) == nil && status.Kind == "Status" && status.Reason == "NotFound" {
		return false, nil
	}
	if resp.StatusCode >= 300 {
		return false, fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	if into == nil {
		return true, nil
	}
	return true, json.Unmarshal(text, into)
}

func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Server, "/")+path, sent)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return c.http.Do(req)
}

// Watch sends the changes of a node after since, until the API server ends the watch, the
// node is deleted, or the context ends.
func (c *Client) Watch(ctx context.Context, since *Node, changes chan<- *Node) error {
	query := url.Values{"watch": {"1"}, "fieldSelector": {"metadata.name=" + c.Node}, "resourceVersion": {since.Metadata.ResourceVersion}}
	resp, err := c.send(ctx, http.MethodGet, "/api/v1/nodes?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("watch the node %s: %s", c.Node, resp.Status)
	}
	for events := json.NewDecoder(resp.Body); ; {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&e); err != nil {
			return watchError(err)
		}
		n := &Node{}
		if e.Type != "ADDED" && e.Type != "MODIFIED" {
			return nil
		}
		if err := json.Unmarshal(e.Object, n); err != nil {
			return err
		}
		select {
		case changes <- n:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watchError returns the error of a watch that the API server did not end normally.
func watchError(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
