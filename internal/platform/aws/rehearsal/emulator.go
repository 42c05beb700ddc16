package rehearsal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/spec/versions"
)

// program is moto's server, which plays most APIs of AWS.
const program = "moto_server"

// startLimit is how long the emulator may take to answer; it needs 2 s.
const startLimit = time.Minute

// runningOn is where the emulator says it listens.
var runningOn = regexp.MustCompile(`http://127\.0\.0\.1:\d+\b`)

// emulator is a running one, which only this program reaches.
type emulator struct {
	url   *url.URL
	cmd   *exec.Cmd
	ended chan struct{}
	last  string // line that it wrote
}

// Check reports what this host lacks to play AWS.
func Check() error {
	_, err := find()
	return err
}

// find returns the path of the emulator's program.
func find() (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("AWS is played by %s, and this host has none: %w", program, err), "run: pip install 'moto[server]'")
	}
	return path, nil
}

func startEmulator(ctx context.Context, o rehearsal.Options) (*emulator, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	images := filepath.Join(o.Dir, "images.json")
	text, err := json.Marshal(imagesOf(versions.Stable, versions.Alpha))
	if err == nil {
		err = os.WriteFile(images, text, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write the machine images of the emulator: %w", err)
	}
	var words []string
	for _, name := range ofAccount() {
		words = append(words, "--unset="+name)
	}
	words = append(words, "MOTO_AMIS_PATH="+images, "PYTHONUNBUFFERED=1", path, "-H", "127.0.0.1", "-p", "0")
	e := &emulator{cmd: exec.Command("env", words...), ended: make(chan struct{})} // it ends when it is closed
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	e.cmd.Stdout, e.cmd.Stderr = in, in
	if err := errors.Join(e.cmd.Start(), in.Close()); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	said := make(chan string, 1)
	go e.read(out, o.Log, said)
	select {
	case at := <-said:
		e.url, err = url.Parse(at)
	case <-e.ended:
		err = e.failure()
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(startLimit):
		err = fmt.Errorf("%s does not come up in %s: %s", program, startLimit, e.last)
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// read reads what the emulator writes until it ends; the first address in it is its own.
func (e *emulator) read(out *os.File, log io.Writer, said chan<- string) {
	defer close(e.ended)
	defer e.cmd.Wait() //nolint:errcheck // how it ended is what it wrote last
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		e.last = lines.Text()
		if log != nil {
			_, _ = fmt.Fprintln(log, e.last) // a log that cannot be written changes nothing
		}
		if at := runningOn.FindString(e.last); at != "" {
			select {
			case said <- at:
			default:
			}
		}
	}
}

// failure is why the emulator ended, which nobody asked for.
func (e *emulator) failure() error { return fmt.Errorf("%s has ended: %s", program, e.last) }

// close ends the emulator and all that it made.
func (e *emulator) close() error {
	if err := syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end %s: %w", program, err)
	}
	<-e.ended
	return nil
}

// machineImage is one as the emulator reads it from a file.
type machineImage struct {
	ID           string `json:"ami_id"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	Owner        string `json:"owner_id"`
	Location     string `json:"image_location"`
	Architecture string `json:"architecture"`
	State        string `json:"state"`
	Type         string `json:"image_type"`
	RootType     string `json:"root_device_type"`
	RootName     string `json:"root_device_name"`
	Kind         string `json:"virtualization_type"`
	Hypervisor   string `json:"hypervisor"`
	Network      string `json:"sriov"`
	Public       bool   `json:"public"`
	Platform     any    `json:"platform"`
}

// imagesOf are the machine images that the channels of versions recommend. Whatever their
// names say, machines of this host boot from the host's own image.
func imagesOf(channels ...string) []machineImage {
	out := []machineImage{}
	known := map[string]bool{}
	for _, c := range channels {
		v, ok := versions.Embedded(c)
		if !ok {
			continue
		}
		for _, full := range v.Images(api.CloudAWS) {
			if known[full] {
				continue
			}
			known[full] = true
			owner, name, _ := strings.Cut(full, "/")
			arch := "x86_64"
			if strings.Contains(name, "arm64") {
				arch = "arm64"
			}
			sum := fnv.New64a()
			_, _ = sum.Write([]byte(full)) // a hash takes all
			out = append(out, machineImage{ID: fmt.Sprintf("ami-%017x", sum.Sum64()&0xfffffffffffffff), Name: name, Description: name, Owner: owner, Location: full, Architecture: arch,
				State: "available", Type: "machine", RootType: "ebs", RootName: "/dev/sda1", Kind: "hvm", Hypervisor: "xen", Network: "simple", Public: true})
		}
	}
	return out
}
