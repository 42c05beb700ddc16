package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/agent/presence"
	"kops.local/kops/internal/node/host"
)

const (
	unitName = "kops-configuration.service"
	unitEnv  = "/etc/sysconfig/kops-configuration"
)

// The units of nodeup: the one that runs it on every boot, the one that renews certificates, with
// its timer, the one that watches the node, and the one that the latter starts to change the
// machine in place. A failed renewal is retried soon, because certificates keep aging; so is one
// that finds another nodeup running.
const (
	renewalName      = "kops-renewal.service"
	renewalTimerName = "kops-renewal.timer"
	presenceName     = "kops-presence.service"
	applyName        = presence.ApplyUnit

	environment = "EnvironmentFile=" + unitEnv + "\nEnvironmentFile=-/etc/environment\n"

	startUnit = `[Unit]
Description=Make this machine a member of its cluster
After=network-online.target
Wants=network-online.target

[Service]
StandardOutput=journal+console
StandardError=journal+console
` + environment + `ExecStart=%s
Type=oneshot
TimeoutStartSec=infinity

[Install]
WantedBy=multi-user.target
`

	renewalUnit = `[Unit]
Description=Renew the certificates of this machine that are near their end
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
` + environment + `ExecStart=%s --renew
Restart=on-failure
RestartSec=10min
`

	renewalTimer = `[Unit]
Description=Renew the certificates of this machine twice a day

[Timer]
OnCalendar=*-*-* 00,12:00:00
RandomizedDelaySec=6h
Persistent=true

[Install]
WantedBy=timers.target
`

	// It runs for long and does little, so it returns memory early.
	presenceUnit = `[Unit]
Description=Look after the node of this machine
StartLimitIntervalSec=0

[Service]
StandardOutput=journal+console
StandardError=journal+console
Environment=GOGC=20 GOMAXPROCS=1
ExecStart=%s --watch-node
Restart=always
RestartSec=10s

[Install]
WantedBy=multi-user.target
`

	// With Type=exec, starting the unit returns as soon as the program runs; the change itself may take long.
	applyUnit = `[Unit]
Description=Change this machine in place
After=network-online.target

[Service]
Type=exec
` + environment + `ExecStart=%s --apply
`
)

// startedUnits lists the units that install starts in addition to nodeup.
func startedUnits() []string { return []string{renewalTimerName, presenceName} }

// passedVariables lists the environment variables that nodeup needs on every boot.
func (o Options) passedVariables() []string {
	out := nodeconfig.StoreVariables()
	for _, p := range o.Platforms {
		out = append(out, p.Environment...)
	}
	return append(out, storekeys.Variable, "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", "http_proxy", "https_proxy", "no_proxy", "NO_PROXY")
}

// install writes the unit that runs nodeup now and on every boot, and starts it without
// waiting for it to finish.
func (o Options) install(ctx context.Context) error {
	m := &host.Machine{Root: o.Root, Chown: o.Privileged, Now: o.Clock.Now}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	conf, err := filepath.Abs(o.Conf)
	if err != nil {
		return fmt.Errorf("find the boot configuration: %w", err)
	}
	var env strings.Builder
	for _, name := range o.passedVariables() {
		if v := o.Env(name); v != "" {
			fmt.Fprintf(&env, "%s=%q\n", name, v)
		}
	}
	start := program + " --conf=" + conf + " --cache=" + o.Cache + " --v=8"
	if err := host.Files.Create(ctx, m, &host.File{Path: unitEnv, Content: resource.SecretText(env.String()), Mode: "0600"}); err != nil {
		return fmt.Errorf("write %s: %w", unitEnv, err)
	}
	for _, u := range []struct{ name, text string }{
		{unitName, fmt.Sprintf(startUnit, start)}, {renewalName, fmt.Sprintf(renewalUnit, start)}, {renewalTimerName, renewalTimer},
		{presenceName, fmt.Sprintf(presenceUnit, start)}, {applyName, fmt.Sprintf(applyUnit, start)},
	} {
		if err := host.Files.Create(ctx, m, &host.File{Path: "/etc/systemd/system/" + u.name, Content: resource.Text(resource.Lit(u.text)), Mode: "0644"}); err != nil {
			return fmt.Errorf("write %s: %w", u.name, err)
		}
	}
	if filepath.Clean(o.Root) != "/" {
		return enable(ctx, host.Offline{Root: o.Root})
	}
	systemd, err := host.Connect(ctx)
	if err != nil {
		return err
	}
	defer systemd.Close()
	if err := systemd.Reload(ctx); err != nil {
		return err
	}
	if err := enable(ctx, systemd); err != nil {
		return err
	}
	for _, unit := range startedUnits() {
		if err := systemd.Begin(ctx, unit); err != nil {
			return err
		}
	}
	return systemd.Begin(ctx, unitName)
}

// enable makes nodeup and its other units start on boot.
func enable(ctx context.Context, s host.Systemd) error {
	var errs []error
	for _, name := range append(startedUnits(), unitName) {
		errs = append(errs, s.Enable(ctx, name, true))
	}
	return errors.Join(errs...)
}
