package emulator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// diskType is a type of disk, with the sizes that it may have in GB.
type diskType struct {
	least, most, usual int64
	// iops and throughput report whether they can be set.
	iops, throughput bool
}

// diskTypes are the disk types of every zone, according to
// https://cloud.google.com/compute/docs/disks.
var diskTypes = map[string]diskType{
	"pd-standard":          {10, 65536, 500, false, false},
	"pd-balanced":          {10, 65536, 100, false, false},
	"pd-ssd":               {10, 65536, 100, false, false},
	"pd-extreme":           {500, 65536, 1000, true, false},
	"hyperdisk-balanced":   {4, 65536, 100, true, true},
	"hyperdisk-extreme":    {64, 65536, 1000, true, false},
	"hyperdisk-throughput": {2048, 32768, 2048, false, true},
}

func diskKind() *collection {
	return &collection{name: "disks", word: "disk", verbs: []string{"insert", "get", "list", "aggregatedList", "delete", "setLabels"}, users: []string{"instances"}, labelled: true, mutable: []string{"provisionedIops", "provisionedThroughput"}, shape: shapeDisk, show: showUsers}
}

func shapeDisk(c *call, o, _ object) error {
	return c.disk(o, c.scope(), "resource")
}

// disk checks a disk in the zone with the path scope, and sets the fields that the server sets.
func (e *Emulator) disk(o object, scope, at string) error {
	if err := checkLabels(at+".labels", tree.Sub(o, "labels")); err != nil {
		return err
	}
	name := lastPart(tree.Text(o, "type"), "/")
	if name == "" {
		name = "pd-standard"
	}
	kind, known := diskTypes[name]
	if url := pathOf(tree.Text(o, "type")); !known || strings.Contains(url, "/") && !strings.HasSuffix(url, "zones/"+lastPart(scope, "/")+"/diskTypes/"+name) {
		return invalid(at+".type", o["type"], "The referenced diskType resource cannot be found.")
	}
	o["type"] = link(scope + "/diskTypes/" + name)
	size, err := strconv.ParseInt(tree.Text(o, "sizeGb"), 10, 64)
	if o["sizeGb"] == nil {
		size, err = kind.usual, nil
	}
	if source := tree.Text(o, "sourceImage"); source != "" {
		_, image, err := e.image(source, at+".sourceImage")
		if err != nil {
			return err
		}
		o["sourceImage"], o["architecture"] = image["selfLink"], image["architecture"]
		least, _ := strconv.ParseInt(tree.Text(image, "diskSizeGb"), 10, 64) // set by the emulator
		if o["sizeGb"] == nil {
			size = least
		} else if size < least {
			return invalid(at+".sizeGb", size, fmt.Sprintf("Requested disk size cannot be smaller than the image size (%d GB)", least))
		}
	}
	if err != nil || size < kind.least || size > kind.most {
		return invalid(at+".sizeGb", o["sizeGb"], fmt.Sprintf("Disk size of %s must be between %d GB and %d GB.", name, kind.least, kind.most))
	}
	if o["provisionedIops"] != nil && !kind.iops {
		return invalid(at+".provisionedIops", o["provisionedIops"], "The disk type "+name+" does not support it.")
	}
	if o["provisionedThroughput"] != nil && !kind.throughput {
		return invalid(at+".provisionedThroughput", o["provisionedThroughput"], "The disk type "+name+" does not support it.")
	}
	o["sizeGb"], o["status"], o["physicalBlockSizeBytes"] = strconv.FormatInt(size, 10), "READY", "4096"
	if name == "hyperdisk-balanced" {
		tree.SetDefaults(o, object{"provisionedIops": "3000", "provisionedThroughput": "140"})
	}
	if o["id"] != nil {
		return nil // it is already counted
	}
	metric := "DISKS_TOTAL_GB"
	if name != "pd-standard" {
		metric = "SSD_TOTAL_GB"
	}
	return e.checkQuota(metric, scope+"/", size)
}

// updateDisk changes the fields in the parameters paths and updateMask.
func (c *call) updateDisk() (object, error) {
	selected := object{}
	for _, field := range strings.Split(strings.Trim(c.params["paths"]+","+c.params["updateMask"], ","), ",") {
		if field = camel(field); c.kinds["disks"].schema.Properties[field] == nil {
			return nil, invalid("updateMask", field, "The fields to change must be selected, and must be fields of a disk.")
		}
		selected[field] = c.body[field]
	}
	return c.kinds["disks"].change(c, "update", func(old object) object { return tree.MergePatch(old, selected) })
}

func (c *call) resizeDisk() (object, error) {
	x, err := c.kinds["disks"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	size, err := strconv.ParseInt(tree.Text(c.body, "sizeGb"), 10, 64)
	now, _ := strconv.ParseInt(tree.Text(x.o, "sizeGb"), 10, 64) // set by the emulator
	if err != nil || size <= now {
		return nil, invalid("sizeGb", c.body["sizeGb"], fmt.Sprintf("Disk cannot be resized to a smaller or equal size than %d GB.", now))
	}
	return c.startChange("resizeDisk", x, func(context.Context) error {
		x.o["sizeGb"] = strconv.FormatInt(size, 10)
		return nil
	})
}

// attachDisk attaches a disk to an instance.
func (c *call) attachDisk() (object, error) {
	x, err := c.kinds["instances"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	path, err := c.resolveReference(tree.Text(c.body, "source"), "source", []string{"disks"})
	if err != nil {
		return nil, err
	}
	if scopeOf(path) != scopeOf(x.path) {
		return nil, invalid("source", c.body["source"], "The disk is in another zone.")
	}
	disk := c.entries[path]
	attached := tree.Clone(c.body)
	attached["source"] = link(path)
	tree.SetDefault(attached, "mode", "READ_WRITE")
	check := func() error {
		for _, user := range c.usersOf(disk) {
			if user == x.path {
				return refusal(http.StatusBadRequest, "invalid", "The disk resource '%s' is already attached to the instance.", path)
			}
			if tree.Text(attached, "mode") == "READ_WRITE" || !readOnly(c.entries[user], link(path)) {
				return inUseError(disk, user)
			}
		}
		if device := tree.Text(attached, "deviceName"); slices.ContainsFunc(tree.Subs(x.o, "disks"), func(d object) bool { return device != "" && d["deviceName"] == device }) {
			return invalid("deviceName", device, "The device name is already used.")
		}
		return nil
	}
	if err := check(); err != nil {
		return nil, err
	}
	return c.startChange("attachDisk", x, func(ctx context.Context) error {
		if err := check(); err != nil {
			return err
		}
		if c.entries[path] == nil {
			return notFound(path)
		}
		disks, _ := x.o["disks"].(list)
		completeAttached(attached, len(disks), disk)
		x.o["disks"] = append(disks, attached)
		disk.o["lastAttachTimestamp"] = stamp(c.Now())
		c.updateFingerprint(x)
		return c.plug(ctx, x)
	})
}

// readOnly reports whether a disk is attached to an instance as read-only.
func readOnly(instance *entry, disk string) bool {
	return slices.ContainsFunc(tree.Subs(instance.o, "disks"), func(d object) bool { return d["source"] == disk && d["mode"] == "READ_ONLY" })
}

// completeAttached sets the server's fields of an attached disk.
func completeAttached(attached object, index int, disk *entry) {
	tree.SetDefault(attached, "type", "PERSISTENT")
	tree.SetDefault(attached, "deviceName", fmt.Sprintf("persistent-disk-%d", index))
	tree.SetDefault(attached, "interface", "SCSI")
	tree.SetDefault(attached, "autoDelete", false)
	tree.SetDefault(attached, "boot", false)
	attached["index"], attached["diskSizeGb"] = int64(index), disk.o["sizeGb"]
	if a := disk.o["architecture"]; a != nil {
		attached["architecture"] = a
	}
	delete(attached, "forceAttach")
}

func (c *call) detachDisk() (object, error) {
	x, err := c.kinds["instances"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	device := c.params["deviceName"]
	at := slices.IndexFunc(tree.Subs(x.o, "disks"), func(d object) bool { return d["deviceName"] == device })
	if at < 0 {
		return nil, invalid("deviceName", device, "No attached disk found with device name '"+device+"'")
	}
	if tree.Bool(tree.Subs(x.o, "disks")[at], "boot") && tree.Text(x.o, "status") != "TERMINATED" {
		return nil, invalid("deviceName", device, "The boot disk of a running instance cannot be detached.")
	}
	return c.startChange("detachDisk", x, func(ctx context.Context) error {
		disks, _ := x.o["disks"].(list)
		x.o["disks"] = slices.DeleteFunc(disks, func(d any) bool {
			m, _ := d.(object)
			if m["deviceName"] != device {
				return false
			}
			if disk := c.entries[pathOf(tree.Text(m, "source"))]; disk != nil {
				disk.o["lastDetachTimestamp"] = stamp(c.Now())
			}
			return true
		})
		c.updateFingerprint(x)
		return c.plug(ctx, x)
	})
}
