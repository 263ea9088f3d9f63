package browser

import (
	"context"
	"fmt"

	"github.com/chromedp/chromedp"
)

// Start starts the browser with a window of a size. The context that it returns is that of a page. end ends the browser.
//
// The browser runs without its sandbox, which root cannot use. It opens no page but that of the test, and finds no
// other host: a page of ours that could break out of a browser had the rights of the test in any case.
func (b Browser) Start(ctx context.Context, width, height int) (page context.Context, end func(), err error) {
	environment, err := b.environment()
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(b.path()), chromedp.Env(environment...), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(width, height),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("disable-dev-shm-usage", true),
	)...)
	page, leave := chromedp.NewContext(ctx)
	if err := chromedp.Do(page); err != nil {
		leave()
		stop()
		return nil, nil, fmt.Errorf("start the browser: %w", err)
	}
	return page, func() { leave(); stop() }, nil
}
