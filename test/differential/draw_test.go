package differential_test

import (
	"fmt"
	"strings"
)

// drawStep draws the next verb.
func (n *network) drawStep(p *pair) step {
	s := step{id: fmt.Sprintf("c%d", n.r.IntN(9)), ifName: []string{"eth0", "eth0", "net1"}[n.r.IntN(3)], netns: "/some/where"}
	s.verb = []string{"ADD", "ADD", "ADD", "ADD", "DEL", "DEL", "DEL", "CHECK", "GC", "STATUS"}[n.r.IntN(10)]
	if s.verb == "DEL" && n.r.IntN(2) == 0 {
		s.netns = ""
	}
	var args []string
	if n.r.IntN(2) == 0 {
		args = append(args, "IgnoreUnknown=1", "K8S_POD_NAMESPACE=ns", "K8S_POD_NAME="+s.id, "K8S_POD_INFRA_CONTAINER_ID="+s.id)
	}
	s.conf = n.conf(func(conf, ipam object) {
		if s.verb == "ADD" {
			args = n.drawRequest(conf, args)
		}
		if s.verb == "GC" && n.r.IntN(2) == 0 {
			conf["cni.dev/valid-attachments"] = p.drawValid(n)
		}
		if n.r.IntN(8) == 0 {
			args = n.drawFault(conf, ipam, args)
		}
	})
	n.r.Shuffle(len(args), func(i, j int) { args[i], args[j] = args[j], args[i] })
	s.args = strings.Join(args, ";")
	return s
}

// drawRequest asks for addresses by number, and brings ranges of the runtime, now
// and then.
func (n *network) drawRequest(conf object, args []string) []string {
	runtime := object{}
	switch n.r.IntN(8) {
	case 0, 1:
		args = append(args, "IP="+n.drawAddress())
	case 2:
		conf["args"] = object{"cni": object{"ips": []string{n.drawAddress()}}}
	case 3:
		runtime["ips"] = []string{n.drawAddress(), n.drawAddress()}[:1+n.r.IntN(2)]
	}
	if n.r.IntN(10) == 0 && n.version >= "0.3.0" {
		runtime["ipRanges"] = [][]object{{{"subnet": "10.77.0.0/29"}}}
	}
	if len(runtime) > 0 {
		conf["runtimeConfig"] = runtime
	}
	return args
}

// drawValid lists some of the attachments as valid, for GC.
func (p *pair) drawValid(n *network) []object {
	valid := []object{}
	for i := range 9 { // in a fixed order: the draw must not depend on that of a map
		for _, ifName := range []string{"eth0", "net1"} {
			h := holder{fmt.Sprintf("c%d", i), ifName}
			if p.attached[h] && n.r.IntN(3) > 0 {
				valid = append(valid, object{"containerID": h.id, "ifname": h.ifName})
			}
		}
	}
	return valid
}

// faults make one key of the input invalid each.
var faults = []func(conf, ipam object){
	func(_, ipam object) { setRange(ipam, `10.50.0.3/24`) },
	func(_, ipam object) { setRange(ipam, `10.50.0.0/31`) },
	func(_, ipam object) { setRange(ipam, `10.50.0.0`) },
	func(_, ipam object) { setRange(ipam, `fd00::/128`) },
	func(_, ipam object) { setRange(ipam, `10.50.0.0/24`, "rangeStart", "10.51.0.1") },
	func(_, ipam object) { setRange(ipam, `10.50.0.0/24`, "rangeEnd", "10.51.0.1") },
	func(_, ipam object) {
		setRange(ipam, `10.50.0.0/24`, "rangeEnd", "10.50.0.9", "rangeStart", "10.50.0.12")
	},
	func(_, ipam object) { setRange(ipam, `10.50.0.0/24`, "gateway", "nobody") },
	func(_, ipam object) { ipam["ranges"] = [][]object{{}} },
	func(_, ipam object) {
		ipam["ranges"] = [][]object{{{"subnet": "10.50.0.0/24"}, {"subnet": "fd00:50::/64"}}}
	},
	func(_, ipam object) {
		ipam["ranges"] = [][]object{{{"subnet": "10.50.0.0/24"}, {"subnet": "10.50.0.128/25"}}}
	},
	func(_, ipam object) {
		ipam["ranges"] = [][]object{{{"subnet": "10.50.0.0/24"}}, {{"subnet": "10.50.0.0/16"}}}
	},
	func(_, ipam object) { delete(ipam, "ranges"); delete(ipam, "subnet") },
	func(_, ipam object) { ipam["ranges"] = "none" },
	func(_, ipam object) { ipam["routes"] = []object{{"dst": "nowhere"}} },
	func(conf, ipam object) {
		if conf["cniVersion"] != "0.1.0" && conf["cniVersion"] != "0.2.0" { // host-local's panic is no answer
			ipam["routes"] = []any{nil}
		}
	},
	func(_, ipam object) { setRange(ipam, `10.50.0.0/24`); ipam["subnet"] = "" },
	func(_, ipam object) { setRange(ipam, `10.50.0.0/24`); ipam["subnet"] = nil },
	func(_, ipam object) { ipam["rangeStart"] = "zz" },
	func(_, ipam object) { ipam["rangeEnd"] = "10.50.0" },
	func(_, ipam object) { ipam["gateway"] = "fe80::1%eth0" },
	func(_, ipam object) { ipam["resolvConf"] = "/no/such/file" },
	func(_, ipam object) { // all but the directory, without which it would be the machine's own
		for k := range ipam {
			if k != "dataDir" {
				delete(ipam, k)
			}
		}
	},
	func(conf, _ object) { conf["cniVersion"] = "7.0.0" },
	func(conf, _ object) { conf["name"] = "a name" },
	func(conf, _ object) { conf["runtimeConfig"] = object{"ips": []string{"nowhere"}} },
	func(conf, _ object) { conf["args"] = object{"cni": object{"ips": []string{"10.0.0.1/99"}}} },
}

// setRange sets the one range set.
func setRange(ipam object, subnet string, keys ...string) {
	delete(ipam, "subnet")
	r := object{"subnet": subnet}
	for i := 0; i < len(keys); i += 2 {
		r[keys[i]] = keys[i+1]
	}
	ipam["ranges"] = [][]object{{r}}
}

// drawFault makes the configuration or the arguments invalid.
func (n *network) drawFault(conf, ipam object, args []string) []string {
	i := n.r.IntN(len(faults) + 4)
	if i >= len(faults) {
		return append(args, []string{"", "IP", "IP=nowhere", "IgnoreUnknown=maybe"}[i-len(faults)])
	}
	delete(conf, "runtimeConfig") // one thing at a time
	faults[i](conf, ipam)
	return args
}
