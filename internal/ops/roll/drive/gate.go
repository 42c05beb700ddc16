package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"kops.local/kops/internal/ops/roll"
)

// gateTime is the timeout for a URL; a command may take as long as the rollout lets it.
const gateTime = 30 * time.Second

// maxOutput is how much of a gate's output is shown, in bytes.
const maxOutput = 300

// CheckGates checks gates in order; the error names the first that fails.
func CheckGates(ctx context.Context, client *http.Client, gates []roll.Gate) error {
	for _, g := range gates {
		err := command(ctx, g.Command)
		if g.URL != "" {
			err = probe(ctx, client, g.URL)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func command(ctx context.Context, words []string) error {
	if len(words) == 0 {
		return nil
	}
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.WaitDelay = time.Second // for child processes, which may keep its output open
	out, err := c.CombinedOutput()
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(string(out))
	if len(text) > maxOutput {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxOutput:], "")
	}
	if text != "" {
		return fmt.Errorf("the gate %q fails: %w: %s", strings.Join(words, " "), err, text)
	}
	return fmt.Errorf("the gate %q fails: %w", strings.Join(words, " "), err)
}

func probe(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, gateTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("the gate %s: %w", url, err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("the gate fails: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxOutput))
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return errors.Join(fmt.Errorf("the gate %s answers %s: %s", url, answer.Status, strings.TrimSpace(string(text))), err)
}
