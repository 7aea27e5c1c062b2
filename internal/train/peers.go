package train

import (
	"encoding/json"
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Gradients that are summed between the devices of the ranks themselves, see [device.Peers].

// presence is what a rank tells the others of its device.
type presence struct {
	device.Peer
	Why string // it cannot sum with others; "": it can
	ID  []byte `json:",omitempty"` // of the group, from rank 0
}

// meet joins the devices of all ranks where they can sum between themselves. The note says how
// gradients are summed; there is none where the device is not of that kind. All ranks decide alike.
func (g *Group) meet(d device.Device) (notes []string, err error) {
	peers, ok := d.(device.Peers)
	if g.single() || !ok { // ranks have devices of one kind, see sameRun
		return nil, nil
	}
	const instead = "gradients are summed through the hosts' memory: "
	if g.bf16 {
		return []string{instead + "reduce: bf16 is done there"}, nil
	}
	all, err := g.present(peers)
	if err != nil {
		return nil, err
	}
	if why := apart(all, g.ranks.Name); why != "" {
		return []string{instead + why}, nil
	}
	if err := peers.JoinPeers(g.Rank, g.Size, all[0].ID); err != nil {
		return nil,
			fmt.Errorf("joining the other ranks' GPUs: %w; VOXSAW_NCCL=none sums through the hosts' memory instead",
				err)
	}
	g.peers = peers
	return []string{"gradients are summed between the GPUs by " + all[0].Library}, nil
}

// present tells all ranks of all devices.
func (g *Group) present(peers device.Peers) ([]presence, error) {
	var own presence
	var err error
	if own.Peer, err = peers.MeetPeers(); err == nil && g.Rank == 0 {
		own.ID, err = peers.PeerID()
	}
	if err != nil {
		own.Why = err.Error()
	}
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	texts, err := g.ranks.Gather(text)
	if err != nil {
		return nil, err
	}
	all := make([]presence, len(texts))
	for rank, text := range texts {
		if err := json.Unmarshal(text, &all[rank]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// apart says why devices cannot sum with each other; "": they can.
func apart(all []presence, name func(rank int) string) string {
	owners := map[string]int{}
	for rank, p := range all {
		if p.Why != "" {
			return fmt.Sprintf("%s: %s", name(rank), p.Why)
		}
		if p.Library != all[0].Library {
			return fmt.Sprintf("%s has %s, %s %s", name(rank), p.Library, name(0), all[0].Library)
		}
		if other, taken := owners[p.GPU]; taken {
			return fmt.Sprintf("%s and %s share a GPU", name(other), name(rank))
		}
		owners[p.GPU] = rank
	}
	return ""
}

// sumBetweenPeers adds up the gradients of all ranks where they lie.
func (g Group) sumBetweenPeers(o Optimizer) error {
	var gradients []device.Buffer
	err := o.Gradients(func(_ string, gradient device.Buffer) error {
		gradients = append(gradients, gradient)
		return nil
	})
	if err == nil {
		err = g.peers.SumPeers(gradients)
	}
	if err != nil {
		return fmt.Errorf("summing the gradients over the ranks: %w", err)
	}
	return nil
}
