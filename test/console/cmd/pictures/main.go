// Command pictures makes the pictures of `kubectl limpet ui` in the documents: one in dark and one in light colours.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/limpet-io/limpet/internal/console/board"
	"github.com/limpet-io/limpet/internal/console/ui"
	"github.com/limpet-io/limpet/internal/platform/endpoint"
	"github.com/limpet-io/limpet/test/debian"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/test/console/browser"
	"github.com/limpet-io/limpet/test/console/scene"
)

// largest is how many bytes a picture may have.
const largest = 150_000

func main() {
	dir := flag.String("dir", "", "the directory of the pictures")
	flag.Parse()
	if err := run(context.Background(), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "make the pictures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	cache, err := debian.Cache(os.Getenv(debian.CacheVar))
	if err != nil {
		return err
	}
	chromium, err := browser.Fetch(ctx, cache)
	if err != nil {
		return err
	}
	listener, err := endpoint.Listen(ctx, "127.0.0.1:0", endpoint.Limits{})
	if err != nil {
		return err
	}
	shown := board.Plan(scene.At(time.Now()), "")
	look := func(ctx context.Context) (board.Board, error) { return shown, ctx.Err() }
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- ui.Serve(ctx, listener, ui.NewHub(look, clock.RealClock{}, time.Second), "picture") }()
	err = errors.Join(
		picture(ctx, chromium, ui.Address(listener, "picture"), "dark", "needs", filepath.Join(dir, "ui-dark.png")),
		picture(ctx, chromium, ui.Address(listener, "picture"), "light", "workloads", filepath.Join(dir, "ui-light.png")),
	)
	cancel()
	return errors.Join(err, <-ended)
}

// picture takes a picture of a section in a colour scheme.
func picture(ctx context.Context, chromium browser.Browser, address, scheme, section, file string) error {
	page, end, err := chromium.Start(ctx, 1280, 860)
	if err != nil {
		return err
	}
	defer end()
	asked := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(page, emulation.SetEmulatedMedia, asked); err != nil {
		return fmt.Errorf("ask for a %s page: %w", scheme, err)
	}
	err = chromedp.Do(page,
		chromedp.Navigate(address),
		chromedp.WaitVisible(chromedp.CSS(".grid .R")), chromedp.WaitReady(chromedp.CSS("#budgets details")),
		script(`document.querySelectorAll("main > section:not(#addresses) details").forEach((d) => { d.open = true; })`),
		chromedp.WaitReady(chromedp.CSS("#workloads table")), chromedp.WaitReady(chromedp.CSS("#budgets table")),
		script(`document.getElementById("`+section+`").scrollIntoView()`),
		script(`(() => { const g = document.querySelector(".grid"); if ("`+section+`" === "needs") { g.focus(); for (let i = 0; i < 22; i++) g.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" })); } })()`),
	)
	if err != nil {
		return fmt.Errorf("prepare the picture %s: %w", file, err)
	}
	data, err := chromedp.Run(page, chromedp.CaptureScreenshot())
	if err != nil {
		return fmt.Errorf("take the picture %s: %w", file, err)
	}
	if len(data) > largest {
		return fmt.Errorf("the picture %s has %d bytes, at most %d are allowed", file, len(data), largest)
	}
	return os.WriteFile(file, data, 0o644)
}

// script runs statements in the page.
func script(statements string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[bool](statements+"; true")(ctx, t)
		return chromedp.Void{}, err
	}
}
