package console_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/ui"
	"github.com/limpet-io/limpet/internal/platform/endpoint"
	"github.com/limpet-io/limpet/internal/testenv"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// limit is how long a condition may take on a busy machine.
const limit = 2 * time.Minute

// serve serves the page with the rights of a user, and returns its address and what ends it.
func serve(t *testing.T, config *rest.Config, namespace string) (address string, end func() error) {
	t.Helper()
	reads, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := endpoint.Listen(t.Context(), "127.0.0.1:0", endpoint.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	source := ui.Source{Reader: facts.Reader{Client: reads, Now: time.Now}, Namespace: namespace}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- ui.Serve(ctx, listener, ui.NewHub(source.Look, clock.RealClock{}, 100*time.Millisecond), "the-token")
	}()
	end = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("the server of the page: %v", err)
		}
	})
	return ui.Address(listener, "the-token"), end
}

// tab is a page in the browser.
type tab struct {
	testing.TB
	page context.Context

	mu       sync.Mutex
	requests []string
	faults   []string
}

// open opens an address in a browser of its own.
func open(t *testing.T, address string) *tab {
	t.Helper()
	page, end, err := chromium.Start(t.Context(), 1400, 900)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	b := &tab{TB: t, page: page}
	if err := chromedp.Listen(page, b.listen); err != nil {
		t.Fatal(err)
	}
	call(b, log.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	b.run(chromedp.Navigate(address))
	return b
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, fmt.Sprintf("%+v", *e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		b.faults = append(b.faults, fmt.Sprint("console: ", e.Type))
	case *log.EventEntryAdded:
		b.faults = append(b.faults, e.Entry.Text)
	}
}

// call sends a command to the browser.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.Helper()
	if _, err := chromedp.Call(b.page, command, params); err != nil {
		b.Fatal(err)
	}
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.page, actions...); err != nil {
		b.Fatal(err)
	}
}

// eval returns the value of an expression of the page.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.page, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// do runs statements in the page.
func (b *tab) do(statements string) { b.Helper(); eval[bool](b, statements+"; true") }

// prefer makes the browser ask for a kind of page.
func (b *tab) prefer(feature, value string) {
	b.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
}

// resize makes the page as wide as a screen.
func (b *tab) resize(width int64) {
	b.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
}

// await waits until an expression of the page is true.
func (b *tab) await(expression string) {
	b.Helper()
	testenv.Within(b, limit, func() error {
		if !eval[bool](b, expression) {
			return errors.New(expression + " is not true; the page says: " + eval[string](b, "document.body.innerText.slice(0, 600)"))
		}
		return nil
	})
}

// press presses keys. The text of a key comes with its press, as from a keyboard: a page that handles the press itself
// gets no text.
func (b *tab) press(keys string) {
	b.Helper()
	for _, r := range keys {
		events := kb.Encode(r)
		down, up := events[0], events[len(events)-1]
		if len(events) == 3 {
			down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
		}
		call(b, input.DispatchKeyEvent, *down)
		call(b, input.DispatchKeyEvent, *up)
	}
}

// check runs a subtest, which the failures meanwhile are those of.
func (b *tab) check(name string, run func(t *testing.T)) {
	outer := b.TB
	outer.(*testing.T).Run(name, func(t *testing.T) {
		b.TB = t
		defer func() { b.TB = outer }()
		run(t)
	})
}

// shoot writes a picture of the page beside the logs of the tests.
func (b *tab) shoot(name string) {
	b.Helper()
	picture, err := chromedp.Run(b.page, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.ArtifactDir(), name+".png"), picture, 0o644); err != nil {
		b.Error(err)
	}
	if len(picture) < 10_000 {
		b.Errorf("the picture %s has %d bytes: the page is empty", name, len(picture))
	}
}
