package emulator

import (
	"cmp"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

const (
	// Sizes of volumes, in GB.
	minVolume, maxVolume = 10, 10240
	// maxVolumes is the maximum number of volumes of a server.
	maxVolumes = 16
)

func volumeHandlers() map[string]handler {
	const one = " /volumes/{id}"
	return map[string]handler{
		"POST /volumes": (*call).createVolume,
		"DELETE" + one: func(c *call) (object, error) {
			return nil, c.delete("volumes", func(v *standin.Entry) error {
				if v.Object["server"] != nil {
					return unprocessable("service_error", "volume with ID '%d' is still attached to a server", v.ID())
				}
				return nil
			})
		},
		"POST" + one + "/actions/attach": (*call).attachVolume,
		"POST" + one + "/actions/detach": (*call).detachVolume,
		"POST" + one + "/actions/resize": func(c *call) (object, error) {
			return c.change("volumes", "resize_volume", func(v object) error {
				size := tree.Number(c.body, "size")
				if size < tree.Number(v, "size") || size > maxVolume {
					return invalid("size", "a volume can only grow, up to %d GB", maxVolume)
				}
				v["size"] = size
				return nil
			})
		},
	}
}

func (c *call) createVolume() (object, error) {
	s, location, err := c.placeVolume()
	if err != nil {
		return nil, err
	}
	v, err := c.create("volumes", object{"size": c.body["size"], "location": location, "format": c.body["format"], "server": nil, "status": "creating"})
	if err != nil {
		return nil, err
	}
	v.Object["linux_device"] = fmt.Sprint("/dev/disk/by-id/scsi-0HC_Volume_", v.ID())
	next := list{}
	attached := func(error) {}
	if s != nil {
		var a object
		a, attached = c.begin("attach_volume", v, s)
		next = append(next, a)
	}
	a, end := c.begin("create_volume", v)
	var failed error // of the attachment
	c.Operate(c.fate, c.o.Latency, func(ctx context.Context) error {
		if v.Object["status"] = "available"; s != nil {
			failed = c.attach(ctx, v, s)
		}
		return nil
	}, func(err error) {
		end(err)
		attached(cmp.Or(err, failed))
		if err != nil {
			c.store.Remove(v)
		}
	})
	return object{"volume": c.shown(v), "action": tree.Clone(a), "next_actions": tree.Clone(next)}, nil
}

// placeVolume checks a request for a volume, and returns its server, if any, and its location.
func (c *call) placeVolume() (s *standin.Entry, location object, err error) {
	if err := c.store.Check(c.body, standin.Ref{Field: "server", Kind: "servers"}); err != nil {
		return nil, nil, err
	}
	switch size := tree.Number(c.body, "size"); {
	case size < minVolume || size > maxVolume:
		return nil, nil, invalid("size", "a volume has %d to %d GB", minVolume, maxVolume)
	case (c.body["location"] == nil) == (c.body["server"] == nil):
		return nil, nil, invalid("location", "either a location or a server is required")
	case c.body["server"] != nil:
		s = c.store.Get("servers", c.body["server"])
		return s, tree.Sub(s.Object, "location"), nil
	}
	l, err := c.named("locations", "location")
	if err != nil {
		return nil, nil, err
	}
	return nil, l.Object, nil
}

// attach attaches a volume to a server.
func (e *Emulator) attach(ctx context.Context, v, s *standin.Entry) error {
	v.Object["server"] = s.ID()
	return e.plug(ctx, s)
}

// checkAttachable rejects a volume that a server in a location cannot have.
func (e *Emulator) checkAttachable(v *standin.Entry, location object) error {
	switch {
	case v.Busy > 0:
		return locked(v)
	case v.Object["server"] != nil:
		return unprocessable("volume_already_attached", "volume is already attached to a server")
	case tree.Sub(v.Object, "location")["id"] != location["id"]:
		return invalid("server", "the volume and the server are in different locations")
	}
	return nil
}

func (c *call) attachVolume() (object, error) {
	v, err := c.free("volumes")
	if err == nil {
		err = c.store.Check(c.body, standin.Ref{Field: "server", Kind: "servers"})
	}
	if err != nil {
		return nil, err
	}
	s := c.store.Get("servers", c.body["server"])
	switch err = c.checkAttachable(v, tree.Sub(s.Object, "location")); {
	case err != nil:
	case s.Busy > 0:
		err = locked(s)
	case len(c.using("volumes", "server", s.ID())) >= maxVolumes:
		err = refusal(403, "resource_limit_exceeded", "a server has at most %d volumes", maxVolumes)
	}
	if err != nil {
		return nil, err
	}
	return object{"action": c.start("attach_volume", c.o.Latency, func(ctx context.Context) error { return c.attach(ctx, v, s) }, v, s)}, nil
}

func (c *call) detachVolume() (object, error) {
	v, err := c.free("volumes")
	if err != nil {
		return nil, err
	}
	s := c.store.Get("servers", v.Object["server"])
	if s == nil {
		return nil, unprocessable("service_error", "volume with ID '%d' is not attached to a server", v.ID())
	}
	if s.Busy > 0 {
		return nil, locked(s)
	}
	return object{"action": c.start("detach_volume", c.o.Latency, func(ctx context.Context) error {
		v.Object["server"] = nil
		return c.plug(ctx, s)
	}, v, s)}, nil
}

// fingerprint returns the fingerprint of an SSH key, as the API shows it.
func fingerprint(key string) (string, error) {
	parts := strings.Fields(key)
	if len(parts) < 2 {
		return "", errors.New("it is not an SSH key")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil {
		return "", fmt.Errorf("it is not an SSH key: %w", err)
	}
	sum := md5.Sum(raw)
	return strings.Trim(strings.ReplaceAll(fmt.Sprintf("% x", sum[:]), " ", ":"), ":"), nil
}
