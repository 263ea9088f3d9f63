package differential_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var versions = []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

// asked is a step and the title of the difference that it shows, if any.
type asked struct {
	step
	differs string
	luck    bool // host-local tosses a coin
}

func verb(verb, id string) asked {
	return asked{step: step{verb: verb, id: id, ifName: "eth0", netns: "/some/where"}}
}

func add(id string) asked   { return verb("ADD", id) }
func del(id string) asked   { return verb("DEL", id) }
func check(id string) asked { return verb("CHECK", id) }

func (a asked) on(ifName string) asked  { a.ifName = ifName; return a }
func (a asked) with(conf string) asked  { a.conf = conf; return a }
func (a asked) args(args string) asked  { a.step.args = args; return a }
func (a asked) but(title string) asked  { a.differs = title; return a }
func (a asked) byLuck() asked           { a.luck = true; return a }
func (a asked) netNS(path string) asked { a.netns = path; return a }
func conf(version, ipam string) string  { return confWith(version, ipam, "") }
func ranges(list string) string         { return conf("1.1.0", `"ranges":`+list) }
func with(more string) string {
	return confWith("1.1.0", `"ranges":[[{"subnet":"10.1.2.0/24"}]]`, more)
}

func confWith(version, ipam, more string) string {
	if ipam != "" {
		ipam = "," + ipam
	}
	return fmt.Sprintf(`{"cniVersion":%q,"name":"net","type":"x","ipam":{"type":"host-local","dataDir":"$DIR"%s}%s}`, version, ipam, more)
}

const (
	dual    = `"ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"},{"dst":"192.0.2.0/24","gw":"10.1.2.9"}]`
	twoV4   = `[[{"subnet":"10.1.2.0/29"}],[{"subnet":"10.1.3.0/29"}]]`
	other   = `{"cniVersion":"1.1.0","name":"other","type":"x","ipam":{"type":"host-local","dataDir":"$DIR",` + dual + `}}`
	delayed = `{"cniVersion":"1.1.0","name":"net","type":"x","ipam":{"type":"host-local","dataDir":"$DIR","releaseDelay":"30s","ranges":` + twoV4 + `}}`
	podArgs = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME="
)

// ended returns the configuration of the DEL of a pod that ran with two addresses, with a release delay.
func ended(a, b string) string {
	return strings.TrimSuffix(delayed, "}") + fmt.Sprintf(`,"prevResult":{"ips":[{"address":"%s/29"},{"address":"%s/29"}]}}`, a, b)
}

// written are sequences written by hand.
var written = map[string][]asked{
	"the ranges are asked for in every way": {
		add("a").with(conf("1.1.0", `"subnet":"10.1.2.0/24"`)),
		add("b").with(conf("1.1.0", `"subnet":"10.1.2.0/24","rangeStart":"10.1.2.50","rangeEnd":"10.1.2.60","gateway":"10.1.2.254"`)),
		add("c").with(conf("1.1.0", `"subnet":"10.1.2.0/24","ranges":[[{"subnet":"10.1.3.0/24"}],[{"subnet":"fd00::/64"}]]`)),
		add("d").with(with(`,"runtimeConfig":{"ipRanges":[[{"subnet":"10.9.0.0/24"},{"subnet":"10.9.1.0/24"}],[{"subnet":"fd00:9::/64"}]]}`)),
		add("e").with(ranges(`[[{"subnet":"10.1.2.0/24","gateway":"10.99.0.1"}]]`)),
		add("f").with(ranges(`[[{"subnet":"10.1.4.0/24","rangeStart":"10.1.4.0","gateway":"10.1.4.9"}]]`)),
		add("g").with(ranges(`[[{"subnet":"10.1.5.0/24","rangeStart":"10.1.5.255","rangeEnd":"10.1.5.255"}]]`)),
		add("h").with(ranges(`[[{"subnet":"fd00:2::/126"}]]`)), add("i").with(ranges(`[[{"subnet":"fd00:2::/126"}]]`)),
		add("j").with(ranges(`[[{"subnet":"10.1.6.0/30"}]]`)), add("k").with(ranges(`[[{"subnet":"10.1.6.0/30"}]]`)),
		add("l").with(ranges(`[[{"subnet":"10.1.7.0/24","rangeStart":"10.1.7.10","rangeEnd":"10.1.7.12"},{"subnet":"10.1.7.0/24","rangeStart":"10.1.7.20","rangeEnd":"10.1.7.22"}]]`)),
		add("m").with(ranges(`[[{"subnet":"10.1.8.0/24","rangeEnd":"10.1.8.127"}],[{"subnet":"10.1.8.0/24","rangeStart":"10.1.8.128"}]]`)),
		add("n").with(ranges(`[[{"subnet":"10.1.9.0/24","gateway":"fd00::1"}]]`)),
		add("o").with(ranges(`[[{"subnet":"10.1.9.0/024"}]]`)),
	},
	"ranges that will not do": {
		add("a").with(conf("1.1.0", "")), add("a").with(ranges(`[]`)), add("a").with(ranges(`[[]]`)),
		add("a").with(`{"cniVersion":"1.1.0","name":"net","type":"x"}`),
		add("a").with(ranges(`[[{"subnet":"10.1.2.3/24"}]]`)), add("a").with(ranges(`[[{"subnet":"10.1.2.0/31"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/32"}]]`)), add("a").with(ranges(`[[{"subnet":"fd00::/127"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2"}]]`)), add("a").with(ranges(`[[{"subnet":""}]]`)).but("What is not understood is named by its key"), add("a").with(ranges(`[[{"subnet":"10.1.2.0/33"}]]`)),
		add("a").with(ranges(`[[{"subnet":"::ffff:10.1.2.0/120"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.3.1"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeEnd":"10.1.3.1"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeEnd":"10.1.2.0"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2.9","rangeEnd":"10.1.2.8"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2.9","rangeEnd":"10.1.1.8"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeStart":"fd00::1"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2.3","rangeEnd":"fd00::1"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeEnd":"x"}]]`)), add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","gateway":"fe80::1%eth0"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"},{"subnet":"fd00::/64"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"},{"subnet":"10.1.2.0/24"},{"subnet":"fd00::/64"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"},{"subnet":"10.1.3.0/24"},{"subnet":"10.1.3.128/25"},{"subnet":"10.1.2.128/25"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}],[{"subnet":"10.1.2.0/25"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}],[{"subnet":"10.1.3.0/24"}],[{"subnet":"10.1.3.0/25"}],[{"subnet":"10.1.2.0/25"}]]`)),
		add("a").with(conf("0.2.0", `"ranges":`+twoV4)), add("a").with(conf("0.3.0", `"ranges":`+twoV4)),
		add("a").with(conf("0.2.0", `"ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"10.1.2.0/25"}]]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2.255"}]]`)).but("A range may not start behind its end"),
		add("a").with(ranges(`[[{"gateway":"10.1.2.1"}]]`)).but("What is not understood is named by its key"),
		add("a").with(ranges(`{"subnet":"10.1.2.0/24"}`)).but("What is not understood is named by its key"),
		add("a").with(ranges(`[{"subnet":"10.1.2.0/24"}]`)).but("What is not understood is named by its key"),
		add("a").with(ranges(`[[{"subnet":5}]]`)).but("What is not understood is named by its key"),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeStart":5}]]`)).but("What is not understood is named by its key"),
		add("a").with(`{"cniVersion":"1.1.0","name":"net","ipam":"host-local"}`).but("What is not understood is named by its key"),
		add("a").with(`{"cniVersion":"1.1.0","name":"net","ipam":{"type":"host-local","dataDir":7,"subnet":"10.1.2.0/24"}}`).but("What is not understood is named by its key"),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"routes":[{"dst":"nowhere"}]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"routes":[{"dst":"0.0.0.0/0","gw":"x"}]`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"routes":"x"`)).but("What is not understood is named by its key"),
		add("z").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"name":5`)).but("A key that is not used may hold anything"),
	},
	"the one range of old configurations, beside the others": {
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"subnet":""`)), add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"subnet":null`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"rangeStart":"zz"`)), add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"rangeEnd":"zz"`)),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"gateway":"zz"`)), add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"Subnet":""`)),
		verb("STATUS", "").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"subnet":""`)).but("STATUS fails where each ADD must fail"),
		add("a").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"rangeStart":"","rangeEnd":null,"gateway":"10.9.9.9"`)),
		add("b").with(ranges(`[[{"subnet":"10.1.2.0/24","rangeStart":null}]],"gateway":"fd00::1"`)),
		add("c").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"routes":[null]`)).but("A route is no null"),
		add("d").with(ranges(`[[{"subnet":"10.1.2.0/24"}]],"routes":null`)),
	},
	"what the library refuses": {
		add("a").with("x"), add("a").with("{}"), add("a").with(`{"name":""}`), add("a").with(`{"name":"a b"}`), add("a").with(`[]`),
		add("a").with(conf("9.0.0", dual)), add("a").with(conf("x", dual)), add("a").with(`{"name":"net","cniVersion":5}`),
		add(""), add("-a"), add("a b"), add("a").on(""), add("a").on("an-interface-name"), add("a").on("a/b"), add("a").netNS(""),
		verb("NONSENSE", "a"), verb("VERSION", ""), check("a").with(conf("0.3.1", dual)), verb("STATUS", "").with(conf("1.0.0", dual)), verb("GC", "").with(conf("1.0.0", dual)),
		verb("STATUS", ""), verb("STATUS", "").with(conf("1.1.0", "")).but("STATUS fails where each ADD must fail"), verb("GC", ""), del("a").netNS(""),
	},
	"addresses are asked for by number": {
		add("a").args("IP=10.1.2.77"), add("b"), add("c").args("IP=10.1.2.77"), add("c").args("IP=10.1.2.1"), add("c").args("IP=10.9.9.9"), add("c").args("IP=fd00:1::77"),
		add("d").args("IP=10.1.2.90/8"), add("e").args("IgnoreUnknown=1;ip=10.1.2.99"), add("f").args("IP="), add("g").args("IP=::ffff:10.1.2.120"),
		add("h").with(confWith("1.1.0", dual, `,"args":{"cni":{"ips":["10.1.2.130"]}}`)),
		add("i").with(confWith("1.1.0", dual, `,"args":{"cni":{"ips":["10.1.2.131/24","fd00:1::131/64"]}}`)),
		add("j").with(confWith("1.1.0", dual, `,"runtimeConfig":{"ips":["fd00:1::132","10.1.2.132"]}`)),
		add("k").args("IP=10.1.2.133").with(confWith("1.1.0", dual, `,"runtimeConfig":{"ips":["fd00:1::133"]}`)),
		add("l").args("IP=10.1.2.134").with(confWith("1.1.0", dual, `,"args":{"cni":{"ips":["10.1.2.134"]}}`)),
		add("m").with(confWith("1.1.0", dual, `,"args":{"cni":{"ips":["10.1.2."]}}`)), add("m").with(confWith("1.1.0", dual, `,"runtimeConfig":{"ips":["10.1.2.3/99"]}`)),
		add("m").with(confWith("1.1.0", dual, `,"runtimeConfig":{"ips":[""]}`)).but("What is not understood is named by its key"),
		add("m").with(confWith("1.1.0", dual, `,"args":{"cni":{"ips":"10.1.2.3"}}`)).but("What is not understood is named by its key"),
		add("m").with(confWith("1.1.0", dual, `,"args":{"cni":null}`)), add("n").with(confWith("1.1.0", dual, `,"args":null`)),
		add("o").with(confWith("1.1.0", dual, `,"args":{"cni":{"ips":["10.1.2.140","10.1.2.141"]}}`)).but("The first of several requested addresses counts").byLuck(),
	},
	"arguments that are none": {
		add("a").args("IP=10.1.2"), add("a").args("IP=10.1.2.3/99"), add("a").args("IP"), add("a").args("IP=10.1.2.5;"), add("a").args(";"), add("a").args("A=B"),
		add("a").args("IP=10.1.2.5=6"), add("a").args("IgnoreUnknown=maybe"), add("a").args("IgnoreUnknown=1;IgnoreUnknown=1;IP=10.1.2.44"), add("b").args("CommonArgs=x"),
		add("c").args("IgnoreUnknown=1;IP=fe80::1%eth0"), add("d").args("K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p").but("A pod's names are known arguments"),
	},
	"a directory by a relative path": {
		add("a").with(`{"cniVersion":"1.1.0","name":"net","type":"x","ipam":{"type":"host-local","logFile":"none","dataDir":"` +
			strings.Repeat("../", 20) + `$DIR/relative",` + dual + `}}`).but("The directory of the state is an absolute path"),
	},
	"a second ADD without a DEL": {
		add("a"), add("a"), add("a").on("eth1"), add("a").on("eth1"), add("b"), del("a"), add("a"), add("a").on("eth1"),
		add("b").args("IP=10.1.2.200").but("One attachment, one ADD"),
		check("b"), add("c"), del("b"), del("b"), check("b"), add("d"),
	},
	"a repeated ADD does not free what the container has": { // host-local's does
		add("a").args("IP=10.1.2.9"), add("a").args("IP=10.1.2.10").but("One attachment, one ADD"), check("a"), add("b").args("IP=10.1.2.9"),
	},
	"a second ADD with other ranges": {
		add("a"), add("a").with(ranges(`[[{"subnet":"10.7.0.0/24"}]]`)).but("One attachment, one ADD"),
	},
	"DEL and CHECK with a configuration that would not do for ADD": {
		add("a"), check("a"), check("a").with(ranges(`[[{"subnet":"10.7.0.0/24"}]]`)), check("b").with(ranges(`[[{"subnet":"10.7.0.0/24"}]]`)), check("a").with(ranges(`[]`)).but("CHECK compares with prevResult, and looks at nothing else"),
		check("a").with(confWith("1.1.0", dual, `,"prevResult":{"ips":[{"address":"10.1.2.2/24"},{"address":"fd00:1::2/64"}]}`)),
		check("a").with(confWith("1.1.0", dual, `,"prevResult":{"ips":[{"address":"10.1.2.3/24"}]}`)).but("CHECK compares with prevResult, and looks at nothing else"),
		del("a").with(ranges(`[]`)).but("DEL works with a configuration that would not do for ADD"), check("a"), add("b"),
		del("b").args("=").but("DEL works with a configuration that would not do for ADD"), add("c"), del("c").with(ranges(`[[{"subnet":"10.7.0.0/24"}]]`)), check("c"), add("d"),
	},
	"garbage collection": {
		add("a"), add("b"), verb("GC", ""), check("a"),
		verb("GC", "").with(confWith("1.1.0", dual, `,"cni.dev/valid-attachments":[{"containerID":"a","ifname":"eth0"}]`)), check("a"), check("b"), add("c"),
		verb("GC", "").with(confWith("1.1.0", dual, `,"cni.dev/valid-attachments":null`)), check("a"), add("d"),
		verb("GC", "").with(confWith("1.1.0", dual, `,"cni.dev/valid-attachments":5`)).but("GC ends what is not valid"),
	},
	"two networks in one directory": {
		add("a"), add("a").with(other), add("b").with(other), check("b"), del("a"), check("a").with(other), del("a").with(other), add("c").with(other), add("c"),
	},
	"a range is used up": {
		add("a").with(ranges(twoV4)), add("b").with(ranges(twoV4)), add("c").with(ranges(twoV4)), add("d").with(ranges(twoV4)), add("e").with(ranges(twoV4)), add("f").with(ranges(twoV4)),
		add("f").with(ranges(twoV4)).args("IP=10.8.0.1").but("Requested addresses are looked at first"),
		del("b").with(ranges(twoV4)), add("g").with(ranges(twoV4)), del("a").with(ranges(twoV4)), del("c").with(ranges(twoV4)), add("h").with(ranges(twoV4)), add("i").with(ranges(twoV4)), add("j").with(ranges(twoV4)),
		add("k").with(ranges(`[[{"subnet":"10.1.4.0/29"}],[{"subnet":"10.1.2.0/29"}]]`)), // full in the second set
		add("l").with(ranges(`[[{"subnet":"10.5.0.0/30","gateway":"10.5.0.1","rangeEnd":"10.5.0.1"}]]`)).but("A range has an address that is not its gateway"),
	},
	"addresses are released in another order than they were handed out": {
		add("a").with(delayed), add("b").with(delayed), add("c").with(delayed), add("d").with(delayed), add("e").with(delayed),
		del("c").with(ended("10.1.2.4", "10.1.3.4")), del("a").with(ended("10.1.2.2", "10.1.3.2")), add("f").with(delayed).but("A released address waits"),
	},
	"a failing ADD moves no cursor": { // host-local's does: its next address would be another
		add("a"), add("b").with(confWith("1.1.0", dual, `,"runtimeConfig":{"ips":["10.1.2.50","10.9.9.9"]}`)), add("c"),
	},
	"DNS from a file": {
		add("a").with(conf("1.1.0", dual+`,"resolvConf":"RESOLV"`)), add("b").with(conf("0.4.0", dual+`,"resolvConf":"RESOLV"`)), add("c").with(conf("0.2.0", dual+`,"resolvConf":"RESOLV"`)),
		add("d").with(conf("1.1.0", dual+`,"resolvConf":"RESOLV.none"`)), del("a").with(conf("1.1.0", dual+`,"resolvConf":"RESOLV.none"`)), add("e").with(conf("1.1.0", dual+`,"resolvConf":"/"`)),
	},
	"routes are passed on": {
		add("a").with(conf("1.1.0", `"subnet":"10.1.2.0/24","routes":[{"dst":"0.0.0.0/0","mtu":1400,"advmss":1300,"priority":10,"table":50,"scope":253},{"dst":"10.0.0.0/8","gw":"10.1.2.3"}]`)),
		add("b").with(conf("0.2.0", `"subnet":"10.1.2.0/24","routes":[{"dst":"0.0.0.0/0","mtu":1400},{"dst":"fd00::/8"}]`)), add("c").with(conf("1.0.0", `"subnet":"10.1.2.0/24","routes":[]`)),
	},
	"pods": {
		add("a").args(podArgs + "web-0"), add("b").args(podArgs + "web-1;K8S_POD_UID=u"), del("a").args(podArgs + "web-0"), add("c").args(podArgs + "web-0"),
		add("d").args(podArgs + "again"), add("e").args(podArgs + "again").but("A rebuilt pod succeeds to its addresses"),
	},
}

// TestWrittenSequences runs the sequences on both, and expects the differences that the
// steps name.
func TestWrittenSequences(t *testing.T) {
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	text := "# a comment\n; another\n\nnameserver 192.0.2.1\n nameserver 192.0.2.2 x\ndomain example.com\nsearch a b\nsearch c\noptions ndots:5 x\nnameserver\n#nameserver 192.0.2.3\n"
	if err := os.WriteFile(resolv, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("sequences", func(t *testing.T) {
		for name, steps := range written {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPair(t, conf("1.1.0", dual))
				for _, a := range steps {
					if a.conf == "" {
						a.conf = p.plain
					}
					a.conf = strings.ReplaceAll(a.conf, "RESOLV", resolv)
					if title, _ := p.take(a.step); title != a.differs && (title != "" || !a.luck) {
						t.Errorf("%s\nshows the difference %q, want %q", a.step, title, a.differs)
					}
				}
			})
		}
	})
}

// TestEveryVersion runs one life of a container on both in each version of the specification.
func TestEveryVersion(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, conf(v, dual))
			for _, a := range []asked{add("a"), add("a"), add("b"), check("a"), check("none"), verb("STATUS", ""), verb("GC", ""), del("a"), del("a"), add("c"), add("d").args("IP=10.1.2.8")} {
				a.conf = p.plain
				if title, _ := p.take(a.step); title != "" {
					t.Errorf("%s\nshows the difference %q", a.step, title)
				}
			}
		})
	}
}

// TestEveryDifferenceIsShownAndWritten keeps the list, the sequences and the document
// in step.
func TestEveryDifferenceIsShownAndWritten(t *testing.T) {
	doc, err := os.ReadFile("../../docs/use/host-local.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, steps := range written {
		for _, a := range steps {
			shown[a.differs] = true
		}
	}
	for _, d := range differences {
		if !shown[d.title] {
			t.Errorf("no written sequence shows %q", d.title)
		}
		if !strings.Contains(string(doc), "\n**"+d.title+".**") {
			t.Errorf("docs/use/host-local.md does not tell of %q", d.title)
		}
	}
}
