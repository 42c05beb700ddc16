package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/host"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/resource"
)

const (
	unitName = "kops-configuration.service"
	unitEnv  = "/etc/sysconfig/kops-configuration"
)

// passed lists the environment that nodeup needs at every start.
func passed() []string {
	return append(model.KnownVariables(), "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", "OS_APPLICATION_CREDENTIAL_ID", "OS_APPLICATION_CREDENTIAL_SECRET",
		"OS_USERNAME", "OS_PASSWORD", "http_proxy", "https_proxy", "no_proxy", "NO_PROXY")
}

// install writes the unit that runs nodeup now and at every start, and starts it without waiting for its end.
func (s system) install(ctx context.Context, o options) error {
	m := &host.Machine{Root: o.root, Chown: s.Root, Now: time.Now}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	conf, err := filepath.Abs(o.conf)
	if err != nil {
		return fmt.Errorf("find the boot configuration: %w", err)
	}
	var env strings.Builder
	for _, name := range passed() {
		if v := s.Env(name); v != "" {
			fmt.Fprintf(&env, "%s=%q\n", name, v)
		}
	}
	unit := "[Unit]\nDescription=Make this machine a member of its cluster\nAfter=network-online.target\nWants=network-online.target\n\n[Service]\nStandardOutput=journal+console\nStandardError=journal+console\nEnvironmentFile=" +
		unitEnv + "\nEnvironmentFile=-/etc/environment\nExecStart=" + program + " --conf=" + conf + " --cache=" + o.cache + " --v=8\nType=oneshot\nTimeoutStartSec=infinity\n\n[Install]\nWantedBy=multi-user.target\n"
	if err := host.Files.Create(ctx, m, &host.File{Path: unitEnv, Content: resource.SecretText(env.String()), Mode: "0600"}); err != nil {
		return fmt.Errorf("write %s: %w", unitEnv, err)
	}
	if err := host.Files.Create(ctx, m, &host.File{Path: "/etc/systemd/system/" + unitName, Content: resource.Text(resource.Lit(unit)), Mode: "0644"}); err != nil {
		return fmt.Errorf("write %s: %w", unitName, err)
	}
	if filepath.Clean(o.root) != "/" {
		return host.Offline{Root: o.root}.Enable(ctx, unitName, true)
	}
	systemd, err := host.Connect(ctx)
	if err != nil {
		return err
	}
	defer systemd.Close()
	if err := systemd.Reload(ctx); err != nil {
		return err
	}
	if err := systemd.Enable(ctx, unitName, true); err != nil {
		return err
	}
	return systemd.Begin(ctx, unitName)
}
