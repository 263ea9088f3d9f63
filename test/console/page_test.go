package console_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"k8s.io/client-go/rest"
)

// first selects the grid of the network limpet of the first node. The network with a hostile name comes before it.
const first = `.grid[aria-label^="Addresses of node node-0, network limpet"]`

// TestThePageInABrowser opens the page on a cluster of 100 nodes, in which a tenant writes hostile texts.
func TestThePageInABrowser(t *testing.T) {
	ns := cluster(t)
	address, end := serve(t, env.Config, "")
	b := open(t, address)
	b.await(`document.querySelectorAll("#addresses .item").length === 100 && document.getElementById("state").textContent === "Live"`)
	b.await(`document.querySelector('` + first + `') !== null`)

	b.check("the token leaves the address", func(t *testing.T) {
		if at := eval[string](b, "location.href"); strings.Contains(at, "the-token") {
			t.Errorf("the address is %s", at)
		}
	})
	b.check("only what is near is drawn", func(t *testing.T) {
		if cells := eval[int](b, `document.querySelectorAll(".grid .cell").length`); cells < 253 || cells > 60*253 {
			t.Errorf("%d cells are drawn of %d", cells, 100*253)
		}
		b.do(`document.querySelector("#addresses .item:last-child").scrollIntoView()`)
		b.await(`document.querySelectorAll("#addresses .item:last-child .cell").length === 253`)
		b.do(`scrollTo(0, 0)`)
	})
	b.check("states are told by signs", func(t *testing.T) {
		if got := eval[string](b, `document.querySelector('`+first+`').textContent.slice(0, 5)`); got != "AR·R·" {
			t.Errorf("the first addresses are drawn as %q, want AR·R·", got)
		}
		b.shoot("page")
	})
	b.check("hostile texts stay texts", func(t *testing.T) { hostileTextsStayTexts(t, b) })
	b.check("a change arrives", func(t *testing.T) {
		b.do(`window.loadedOnce = true`)
		reserve(t, ns)
		b.await(`document.querySelector('` + first + `').textContent.startsWith("ARRR") && window.loadedOnce === true`)
	})
	b.await(`document.querySelector('` + first + `').textContent.startsWith("AR·R")`) // the change is taken back
	b.check("keyboard", func(t *testing.T) { keyboard(t, b) })
	b.check("a narrow screen", func(t *testing.T) { narrow(t, b) })
	b.check("a filter without hits says so", func(t *testing.T) {
		b.do(`const f = document.getElementById("filter"); f.value = "no such name"; f.dispatchEvent(new Event("input"))`)
		for _, section := range []string{"needs", "addresses", "workloads", "spreads", "budgets"} {
			if got := eval[string](b, `document.getElementById("`+section+`").innerText`); !strings.Contains(got, "nothing here matches the filter") && !strings.Contains(got, "none") {
				t.Errorf("section %s is blank: %q", section, got)
			}
		}
		b.do(`document.getElementById("filter").value = ""; document.getElementById("filter").dispatchEvent(new Event("input"))`)
	})
	b.check("problems come first", func(t *testing.T) {
		if got := eval[string](b, `document.querySelector("main section").innerText`); !strings.Contains(got, "limpet-agent is not installed") || !strings.Contains(got, "limpet-controller: 0 of 0 Ready") {
			t.Errorf("the first section says %q, want the missing programs", got)
		}
	})
	b.check("large numbers are told by their size", func(t *testing.T) {
		if got := eval[string](b, `about(BigInt("18446744073709551614")) + " " + about(65534n)`); got != "about 2^64 65534" {
			t.Errorf("the numbers are %q", got)
		}
	})
	b.check("old data are not live", func(t *testing.T) {
		if got := eval[string](b, `looked -= 41000; age(); document.getElementById("state").textContent + document.getElementById("at").textContent`); !strings.HasPrefix(got, "Behind") || !strings.Contains(got, "s ago") {
			t.Errorf("with data of 41 s the page says %q", got)
		}
		b.await(`document.getElementById("state").textContent === "Live"`)
	})
	b.check("contrast", func(t *testing.T) { contrast(t, b) })
	b.check("motion", func(t *testing.T) {
		b.prefer("prefers-reduced-motion", "reduce")
		const animation = `(() => { const e = make("i", "cell new"); document.body.append(e); const name = getComputedStyle(e).animationName; e.remove(); return name; })()`
		if got := eval[string](b, animation); got != "none" {
			t.Errorf("a change moves by %s although the user wants no motion", got)
		}
	})
	b.mu.Lock()
	faults, requests := b.faults, b.requests
	b.mu.Unlock()
	if len(faults) > 0 {
		t.Errorf("the browser complains: %q", faults)
	}
	server, _, _ := strings.Cut(address, "#")
	if i := slices.IndexFunc(requests, func(url string) bool { return !strings.HasPrefix(url, server) && url != "data:," }); i >= 0 || len(requests) < 4 {
		t.Errorf("the page asked for %q, want only %s", requests, server)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	b.await(`document.getElementById("state").textContent.includes("lost")`)
}

// hostileTextsStayTexts opens everything that shows the texts of tenants.
func hostileTextsStayTexts(t *testing.T, b *tab) {
	b.do(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
	for place, least := range map[string]int{
		"#addresses": 3, // the network, its condition, the pod of a reservation
		"#workloads": 2, // the last rebuild, an event
		"#budgets":   1, // the user who asked
	} {
		b.await(`document.querySelector("` + place + `").textContent.includes("onerror")`)
		if n := eval[int](b, `document.querySelector("`+place+`").textContent.split("<img src=x").length - 1`); n < least {
			t.Errorf("%s shows %d hostile texts, want %d", place, n, least)
		}
	}
	if eval[bool](b, `document.querySelector("main img, main script") !== null || window.pwned !== undefined`) {
		t.Error("a text of a tenant became HTML")
	}
	b.shoot("open")
	b.do(`document.querySelectorAll("details").forEach((d) => { d.open = false; })`)
}

// keyboard finds a node and walks through its addresses without a mouse.
func keyboard(t *testing.T, b *tab) {
	b.press("/")
	b.await(`document.activeElement.id === "filter"`)
	b.press("node-42")
	b.await(`[...document.querySelectorAll("#addresses .item")].filter((e) => !e.hidden).length === 1`)
	b.press(kb.Escape)
	b.await(`[...document.querySelectorAll("#addresses .item")].filter((e) => !e.hidden).length === 100`)
	for n := 0; !eval[bool](b, `document.activeElement.matches('`+first+`')`); n++ {
		if n == 20 {
			t.Fatal("20 tabs do not lead to a grid")
		}
		b.press(kb.Tab)
	}
	for _, step := range []struct{ key, says string }{
		{"", "10.0.0.2 attached to "},
		{kb.ArrowRight, "10.0.0.3 reserved for "},
		{kb.ArrowRight, "10.0.0.4 free"},
		{kb.ArrowDown, "10.0.0.36 free"},
		{kb.ArrowUp, "10.0.0.4 free"},
		{kb.ArrowLeft, "10.0.0.3 reserved for "},
		{kb.End, "10.0.0.254 free"},
		{kb.ArrowRight, "10.0.0.254 free"},
		{kb.Home, "10.0.0.2 attached to "},
	} {
		if step.key != "" {
			b.press(step.key)
		}
		if got := eval[string](b, `document.querySelector("[aria-live]").textContent`); !strings.HasPrefix(got, step.says) {
			t.Errorf("the page says %q, want %q", got, step.says)
		}
	}
	if said := eval[string](b, `document.activeElement.getAttribute("aria-label")`); !strings.HasPrefix(said, "Addresses of node node-0, network limpet: ") {
		t.Errorf("the grid is called %q", said)
	}
	b.shoot("keyboard")
}

// narrow opens the page on the screen of a phone: no address is cut off, and nothing is wider than the screen.
func narrow(t *testing.T, b *tab) {
	defer b.resize(1400)
	for _, width := range []int64{320, 390, 500, 620, 640} {
		b.resize(width)
		b.do(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
		cut := eval[int](b, `[...document.querySelectorAll(".grid .cell")].filter((c) => { const r = c.getBoundingClientRect(); return r.right > innerWidth || r.width < 8; }).length`)
		all := eval[int](b, `document.querySelectorAll(".grid .cell").length`)
		if wide := eval[int](b, `document.documentElement.scrollWidth`); cut > 0 || all < 253 || int64(wide) > width {
			t.Errorf("at %d pixels %d of %d addresses are cut off, and the page has %d", width, cut, all, wide)
		}
		if width == 390 {
			b.shoot("narrow")
		}
		b.do(`document.querySelectorAll("details").forEach((d) => { d.open = false; })`)
	}
}

// lowest computes the least contrast between a text and what is behind it, as WCAG defines it, with all stops of a gradient.
const lowest = `(() => {
  const rgb = (c) => c.match(/[\d.]+/g).map(Number);
  const light = (c) => { const [r, g, b] = rgb(c).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const s = getComputedStyle(e), stops = s.backgroundImage.match(/rgba?\([^)]*\)/g) || [];
      if (rgb(s.backgroundColor)[3] !== 0) return [s.backgroundColor, ...stops];
    }
    return ["rgb(255, 255, 255)"];
  };
  let least = [99, ""], seen = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !e.checkVisibility()) continue;
    const text = getComputedStyle(e).color;
    for (const back of behind(e)) {
      seen.add(text + back);
      const [high, low] = [light(text), light(back)].sort((a, b) => b - a), ratio = (high + 0.05) / (low + 0.05);
      if (ratio < least[0]) least = [ratio, e.className + " " + text + " on " + back];
    }
  }
  return { least: least[0], where: least[1], pairs: seen.size };
})()`

// contrast measures both schemes with all contents open.
func contrast(t *testing.T, b *tab) {
	b.do(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
	b.await(`document.querySelector("#budgets td") !== null`)
	for _, scheme := range []string{"dark", "light"} {
		b.prefer("prefers-color-scheme", scheme)
		found := eval[struct {
			Least float64
			Where string
			Pairs int
		}](b, lowest)
		if found.Least < 4.5 || found.Pairs < 8 {
			t.Errorf("%s: the least contrast of %d pairs is %.2f, want 4.5: %s", scheme, found.Pairs, found.Least, found.Where)
		}
		if dark := eval[bool](b, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).every((c) => c < 60)`); dark != (scheme == "dark") {
			t.Errorf("%s: the page is dark: %v", scheme, dark)
		}
		b.shoot(scheme)
	}
}

// TestAUserWithoutRightsIsToldInThePage opens the page with the rights of a user who has none, and with a wrong token.
func TestAUserWithoutRightsIsToldInThePage(t *testing.T) {
	stranger := rest.CopyConfig(env.Config)
	stranger.Impersonate.UserName = "stranger"
	address, _ := serve(t, stranger, "")
	b := open(t, address)
	for section, kind := range map[string]string{"addresses": "nodeippools.limpet.dev", "workloads": "persistentpodstates", "budgets": "podunavailablebudgets", "spreads": "workloadspreads", "needs": "deployments"} {
		b.await(`document.getElementById("` + section + `").textContent.includes("not read: ` + kind + `")`)
	}
	if len(b.faults) > 0 {
		t.Errorf("the browser complains: %q", b.faults)
	}
	other := open(t, strings.Replace(address, "the-token", "a-guess", 1))
	other.await(`document.getElementById("trouble").textContent.includes("the address that the command printed")`)
}
