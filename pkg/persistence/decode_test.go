package persistence

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// The records as encoding/json writes them.

type momentRecord struct {
	Wall time.Time     `json:"wall"`
	Boot string        `json:"boot,omitempty"`
	Up   time.Duration `json:"up"`
}

type deadlineRecord struct {
	From momentRecord  `json:"from"`
	For  time.Duration `json:"for"`
}

type claimedRecord struct {
	deadlineRecord

	ContainerID string           `json:"id,omitempty"`
	UID         string           `json:"uid,omitempty"`
	Retain      time.Duration    `json:"retain,omitempty"`
	Mode        reservation.Mode `json:"mode,omitempty"`
	Seq         *uint64          `json:"seq,omitempty"`
}

type ownerRecord struct {
	Network   string `json:"net"`
	Namespace string `json:"ns,omitempty"`
	Pod       string `json:"pod,omitempty"`
	IfName    string `json:"if"`
}

type attachmentRecord struct {
	Owner           ownerRecord        `json:"owner"`
	ContainerID     string             `json:"id"`
	UID             string             `json:"uid,omitempty"`
	Addresses       []netip.Addr       `json:"ips"`
	Retain          time.Duration      `json:"retain,omitempty"`
	Mode            reservation.Mode   `json:"mode,omitempty"`
	AnnotationsSeen bool               `json:"wish,omitempty"`
	NetNS           string             `json:"netns,omitempty"`
	NetNSDev        uint64             `json:"nsdev,omitempty"`
	NetNSInode      uint64             `json:"nsino,omitempty"`
	Since           momentRecord       `json:"since"`
	Seq             uint64             `json:"seq"`
	Claimed         *claimedRecord     `json:"claimed,omitempty"`
	Dropped         *reservationRecord `json:"dropped,omitempty"`
	RefusedSince    *momentRecord      `json:"refused,omitempty"`
	RefusedUID      string             `json:"refuseduid,omitempty"`
	Caller          int                `json:"caller,omitempty"`
}

type reservationRecord struct {
	Owner       ownerRecord      `json:"owner"`
	ContainerID string           `json:"id,omitempty"`
	UID         string           `json:"uid,omitempty"`
	Addresses   []netip.Addr     `json:"ips"`
	Deadline    deadlineRecord   `json:"until"`
	Retain      time.Duration    `json:"retain,omitempty"`
	Mode        reservation.Mode `json:"mode,omitempty"`
	Seq         uint64           `json:"seq"`

	NetNS        string        `json:"netns,omitempty"`
	NetNSDev     uint64        `json:"nsdev,omitempty"`
	NetNSInode   uint64        `json:"nsino,omitempty"`
	NetNSBoot    string        `json:"nsboot,omitempty"`
	RefusedSince *momentRecord `json:"refused,omitempty"`
	RefusedUID   string        `json:"refuseduid,omitempty"`
}

type poolUsageRecord struct {
	PoolUsage
	Limits *limitsRecord `json:"limits,omitempty"`
}

type limitsRecord struct {
	Pods         int64         `json:"pods"`
	PerNamespace int64         `json:"perNamespace,omitempty"`
	Refuse       bool          `json:"refuse,omitempty"`
	MaxRetain    time.Duration `json:"maxRetain,omitempty"`
	ReleaseDelay time.Duration `json:"releaseDelay,omitempty"`
}

func jsonMoment(m reservation.Moment) momentRecord {
	return momentRecord{Wall: m.Wall.Round(0).UTC(), Boot: m.BootID, Up: m.Up}
}

func jsonRefused(m *reservation.Moment) *momentRecord {
	if m == nil {
		return nil
	}
	return new(jsonMoment(*m))
}

func jsonAttachment(a reservation.Attachment) attachmentRecord {
	r := attachmentRecord{
		Owner: ownerRecord(a.Owner), ContainerID: a.ID.ContainerID, UID: a.UID, Addresses: a.Addresses,
		Retain: a.Retain, Mode: a.Mode, AnnotationsSeen: a.AnnotationsSeen, NetNS: a.NetNS.Path, NetNSDev: a.NetNS.Dev, NetNSInode: a.NetNS.Inode,
		Since: jsonMoment(a.Since), Seq: a.Seq, RefusedSince: jsonRefused(a.RefusedSince), RefusedUID: a.RefusedUID, Caller: a.Caller,
	}
	if c := a.Claimed; c != nil {
		r.Claimed = &claimedRecord{
			deadlineRecord: deadlineRecord{From: jsonMoment(c.Deadline.From), For: c.Deadline.For},
			ContainerID:    c.ContainerID, UID: c.UID, Retain: c.Retain, Mode: c.Mode, Seq: &c.Seq,
		}
	}
	if a.Dropped != nil {
		r.Dropped = new(jsonReservation(*a.Dropped))
	}
	return r
}

func jsonReservation(r reservation.Reservation) reservationRecord {
	return reservationRecord{
		Owner: ownerRecord(r.Owner), ContainerID: r.ContainerID, UID: r.UID, Addresses: r.Addresses,
		Deadline: deadlineRecord{From: jsonMoment(r.Deadline.From), For: r.Deadline.For}, Retain: r.Retain, Mode: r.Mode, Seq: r.Seq,
		NetNS: r.NetNS.Path, NetNSDev: r.NetNS.Dev, NetNSInode: r.NetNS.Inode, NetNSBoot: r.BootID, RefusedSince: jsonRefused(r.RefusedSince), RefusedUID: r.RefusedUID,
	}
}

func jsonUsage(p PoolUsage) poolUsageRecord {
	r := poolUsageRecord{PoolUsage: p}
	if l := p.Limits; l != nil {
		r.Limits = &limitsRecord{Pods: l.Share.Pods, PerNamespace: l.Share.PerNamespace, Refuse: l.Share.Refuse, MaxRetain: l.MaxRetain, ReleaseDelay: l.ReleaseDelay}
	}
	return r
}

// sameForm encodes a value, which must give the bytes of encoding/json, and decodes the bytes.
func sameForm[T, R any](t *testing.T, v T, encodes func(T) ([]byte, error), decodes func([]byte) (T, error), record func(T) R) {
	t.Helper()
	got, err := encodes(v)
	want, wantErr := json.Marshal(record(v))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("error %v, and %v of encoding/json", err, wantErr)
	}
	if err != nil {
		return
	}
	if want = seal(want[:len(want)-1]); !bytes.Equal(got, want) {
		t.Errorf("encoded\n%s, and encoding/json encodes\n%s", got, want)
	}
	again, err := decodes(got)
	if errors.Is(checkAddresses(addressesOf(v)), ErrDamaged) {
		if err == nil {
			t.Errorf("%s is read", got)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s is not read: %v", got, err)
	}
	twice, err := encodes(again)
	if err != nil {
		t.Fatal(err)
	}
	same, err := decodes(twice) // a byte that is not UTF-8 is read as another character
	if diff := cmp.Diff(again, same, cmpopts.EquateComparable(netip.Addr{})); err != nil || diff != "" {
		t.Errorf("%s became\n%s: %v, (-want +got):\n%s", got, twice, err, diff)
	}
}

// addressesOf returns the addresses of a record.
func addressesOf(v any) []netip.Addr {
	switch r := v.(type) {
	case reservation.Attachment:
		return r.Addresses
	case reservation.Reservation:
		return r.Addresses
	}
	return nil
}

// odd are texts that JSON writes with escapes or in other characters than they have.
var odd = []string{"", "plain", "a\"b", `a\b`, "<&>", "tab\t", "\x00", "\x7f", "é", "\u2028", "\xff", "a\u0000é<"}

func attachmentsToEncode() (all []reservation.Attachment) {
	wall := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("far", 5*60*60))
	moment := reservation.Moment{Wall: wall, BootID: "boot", Up: time.Hour}
	for _, s := range odd {
		owner := reservation.Owner{Network: "net" + s, Namespace: s, Pod: s, IfName: "eth0"}
		r := reservation.Reservation{
			Owner: owner, UID: s, ContainerID: s, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
			Deadline: reservation.Deadline{From: moment, For: -1}, Retain: math.MaxInt64, Mode: 255, Seq: math.MaxUint64,
			NetNS: reservation.NetNS{Path: s, Dev: 1, Inode: math.MaxUint64}, BootID: s, RefusedSince: &moment, RefusedUID: s,
		}
		a := reservation.Attachment{
			ID: reservation.AttachmentID{Network: owner.Network, ContainerID: s, IfName: owner.IfName}, Owner: owner, UID: s, Addresses: r.Addresses,
			Retain: math.MinInt64, Mode: reservation.Required, AnnotationsSeen: true, NetNS: r.NetNS, Since: moment, Seq: 7,
			Claimed: &r, Dropped: &r, RefusedSince: &moment, RefusedUID: s, Caller: -1,
		}
		all = append(all, a, reservation.Attachment{Owner: owner, Since: reservation.Moment{BootID: s}})
	}
	return append(
		all,
		reservation.Attachment{Addresses: []netip.Addr{}},
		reservation.Attachment{Addresses: []netip.Addr{{}, netip.MustParseAddr("fe80::1%é"), netip.MustParseAddr("::ffff:10.0.0.1")}},
		reservation.Attachment{Since: reservation.Moment{Wall: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
	)
}

// TestFormWritesAsJSON encodes records with every field, with none, and with texts that need escapes.
func TestFormWritesAsJSON(t *testing.T) {
	for _, a := range attachmentsToEncode() {
		sameForm(t, a, encodeAttachment, decodeAttachment, jsonAttachment)
		if a.Dropped != nil {
			sameForm(t, *a.Dropped, encodeReservation, decodeReservation, jsonReservation)
		}
	}
	for _, p := range []PoolUsage{
		{},
		{Reserved: -1, Limits: &reservation.Limits{}},
		{1, &reservation.Limits{Share: reservation.Share{Pods: 2, PerNamespace: 3, Refuse: true}, MaxRetain: 4, ReleaseDelay: 5}, 6, 7, 8, 9, 10},
	} {
		sameForm(t, p, encodePoolUsage, decodePoolUsage, jsonUsage)
	}
}

// TestReadingARecordAllocatesLittle allows a record its text, its addresses, and the key to compare: commands read a million.
func TestReadingARecordAllocatesLittle(t *testing.T) {
	moment := reservation.Moment{Wall: time.Unix(1, 2), BootID: "boot", Up: time.Hour}
	owner := reservation.Owner{Network: "net", Namespace: "ns", Pod: "web-0", IfName: "eth0"}
	a := reservation.Attachment{
		ID: reservation.AttachmentID{Network: "net", ContainerID: "c", IfName: "eth0"}, Owner: owner, UID: "u", Seq: 7, Retain: time.Hour, Caller: 1,
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, NetNS: reservation.NetNS{Path: "/run/netns/c", Dev: 4, Inode: 5}, Since: moment,
	}
	r := reservation.Reservation{Owner: owner, UID: "u", ContainerID: "c", Addresses: a.Addresses, Deadline: reservation.Deadline{From: moment, For: 9}, Seq: 7}
	attached, err := encodeAttachment(a)
	reserved, err2 := encodeReservation(r)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"attachment":  func() error { _, err := attachmentAt(attachmentKey(a.ID), attached); return err },
		"reservation": func() error { _, err := reservationAt(ownerKey(owner), reserved); return err },
	} {
		n := testing.AllocsPerRun(100, func() {
			if err := read(); err != nil {
				t.Fatal(err)
			}
		})
		if n > 4 { // with the key of the record
			t.Errorf("%s: %.0f allocations", name, n)
		}
	}
}

// TestKeysOfANewerVersionAreIgnored reads records with keys behind those that this version knows.
func TestKeysOfANewerVersionAreIgnored(t *testing.T) {
	newer := func(data []byte) []byte {
		return seal(append(bytes.Clone(data[:len(data)-sumSize]), `,"later":{"at":[1]}`...))
	}
	for _, a := range attachmentsToEncode() {
		data, err := encodeAttachment(a)
		want, wantErr := decodeAttachment(data)
		if err != nil || wantErr != nil {
			continue
		}
		got, err := decodeAttachment(newer(data))
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); err != nil || diff != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", data, err, diff)
		}
	}
}

// FuzzFormIsJSON reads any text as a record. What is read is JSON, and is written as encoding/json writes it.
func FuzzFormIsJSON(f *testing.F) {
	const owner, since = `{"owner":{"net":"n","ns":"s","pod":"p","if":"eth0"},"id":"c"`, `,"since":{"wall":"2026-01-01T00:00:00Z","boot":"b","up":1},"seq":1`
	for _, a := range attachmentsToEncode() {
		for _, r := range []any{jsonAttachment(a), jsonReservation(reservation.Reservation{Owner: a.Owner, Addresses: a.Addresses})} {
			if data, err := json.Marshal(r); err == nil {
				f.Add(data)
			}
		}
	}
	for _, s := range []string{
		owner + `,"ips":["10.1.0.2","fd00::2"]` + since + `}`,
		owner + `,"ips":[]` + since + `}`,
		owner + `,"ips":null` + since + `,"later":{}}`,
		owner + `,"ips":["10.1.0.2",]` + since + `}`,
		owner + `,"ips":["10.1.0"]` + since + `}`,
		owner + `,"ips":null` + since + `,"seq":2}`,                             // twice: the last one counts
		owner + `,"ips":null` + since + `,"SEQ":2,"Owner":{"NET":"m"}}`,         // in capitals: other keys
		owner + `,"ips":null` + since + `0}`,                                    // 10
		`{"owner":{"net":"n","if":"e"},"id":null,"ips":null,"since":null}`,      // null changes nothing
		owner + `,"ips":null,"retain":01` + since + `}`,                         // no JSON
		owner + `,"ips":null,"retain":-0` + since + `}`,                         // 0
		owner + `,"ips":null,"nsino":-0` + since + `}`,                          // no unsigned number
		owner + `,"ips":null,"nsino":18446744073709551616` + since + `}`,        // too large
		owner + `,"ips":null,"retain":1e3` + since + `}`,                        // no integer
		owner + `,"ips":null,"mode":256` + since + `}`,                          // too large for its type
		owner + `,"ips":null,"wish":false,"netns":""` + since + `,"caller":--}`, // written by no version
		owner + `, "ips": null` + since + "}\n",
		owner + `,"ips":null` + since + `}}`,
		owner + `,"ips":null` + since,
		owner + `,"ips":null,"since":{"wall":"2026-01-01T00:00:00+01:30","up":1},"seq":1}`,
		owner + `,"ips":null,"since":{"wall":"2026-01-01 00:00:00Z","up":1},"seq":1}`,
		owner + `,"ips":null,"netns":"\u00e9\ud800` + "\xff" + `"` + since + `}`,
		owner + `,"ips":null` + since + `,"claimed":{"from":{"wall":"2026-01-01T00:00:00Z","up":7},"for":9}}`,
		owner + `,"ips":null` + since + `,"claimed":null,"dropped":{"owner":{"net":"m","if":"eth1"},"ips":["10.2.0.2"],"until":{"from":{"wall":"2026-01-01T00:00:00Z","up":1},"for":9},"seq":2}}`,
		`{"owner":{"net":"n","if":"e"},"ips":null,"until":{"from":{"wall":"2026-01-01T00:00:00Z","up":1},"for":9},"seq":2}`,
		`{"reserved":1,"reclaimed":2,"limits":{"pods":3,"refuse":true}}`,
		`{"reserved":1,"limits":null,"Limits":{"pods":3}}`,
		"", "}", "null", "[]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = seal(bytes.TrimSuffix(data, []byte("}")))
		if a, err := decodeAttachment(data); err == nil {
			sameForm(t, a, encodeAttachment, decodeAttachment, jsonAttachment)
		}
		if r, err := decodeReservation(data); err == nil {
			sameForm(t, r, encodeReservation, decodeReservation, jsonReservation)
		}
		if p, err := decodePoolUsage(data); err == nil {
			sameForm(t, p, encodePoolUsage, decodePoolUsage, jsonUsage)
		}
	})
}
