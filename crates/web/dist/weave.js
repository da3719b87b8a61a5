// Built by scripts/web; licences of what is built in: /a/licenses.txt
var t=globalThis,i=t2=>t2,s=t.trustedTypes,e=s?s.createPolicy("lit-html",{createHTML:t2=>t2}):void 0,h="$lit$",o=`lit$${Math.
random().toFixed(9).slice(2)}$`,n="?"+o,r=`<${n}>`,l=document,c=()=>l.createComment(""),a=t2=>t2===null||typeof t2!="obj\
ect"&&typeof t2!="function",u=Array.isArray,d=t2=>u(t2)||typeof t2?.[Symbol.iterator]=="function",f=`[ 	
\f\r]`,v=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,_=/-->/g,m=/>/g,p=RegExp(`>|${f}(?:([^\\s"'>=/]+)(${f}*=${f}\
*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),g=/'/g,$=/"/g,y=/^(?:script|style|textarea|title)$/i,x=t2=>(i2,...s2)=>({_$litType$:t2,strings:i2,
values:s2}),b=x(1),w=x(2),T=x(3),E=Symbol.for("lit-noChange"),A=Symbol.for("lit-nothing"),C=new WeakMap,P=l.createTreeWalker(
l,129);function V(t2,i2){if(!u(t2)||!t2.hasOwnProperty("raw"))throw Error("invalid template strings array");return e!==void 0?
e.createHTML(i2):i2}var N=(t2,i2)=>{let s2=t2.length-1,e2=[],n2,l2=i2===2?"<svg>":i2===3?"<math>":"",c2=v;for(let i3=0;i3<
s2;i3++){let s3=t2[i3],a2,u2,d2=-1,f2=0;for(;f2<s3.length&&(c2.lastIndex=f2,u2=c2.exec(s3),u2!==null);)f2=c2.lastIndex,c2===
v?u2[1]==="!--"?c2=_:u2[1]!==void 0?c2=m:u2[2]!==void 0?(y.test(u2[2])&&(n2=RegExp("</"+u2[2],"g")),c2=p):u2[3]!==void 0&&
(c2=p):c2===p?u2[0]===">"?(c2=n2??v,d2=-1):u2[1]===void 0?d2=-2:(d2=c2.lastIndex-u2[2].length,a2=u2[1],c2=u2[3]===void 0?
p:u2[3]==='"'?$:g):c2===$||c2===g?c2=p:c2===_||c2===m?c2=v:(c2=p,n2=void 0);let x2=c2===p&&t2[i3+1].startsWith("/>")?" ":
"";l2+=c2===v?s3+r:d2>=0?(e2.push(a2),s3.slice(0,d2)+h+s3.slice(d2)+o+x2):s3+o+(d2===-2?i3:x2)}return[V(t2,l2+(t2[s2]||"\
<?>")+(i2===2?"</svg>":i2===3?"</math>":"")),e2]},S=class _S{constructor({strings:t2,_$litType$:i2},e2){let r2;this.parts=
[];let l2=0,a2=0,u2=t2.length-1,d2=this.parts,[f2,v2]=N(t2,i2);if(this.el=_S.createElement(f2,e2),P.currentNode=this.el.
content,i2===2||i2===3){let t3=this.el.content.firstChild;t3.replaceWith(...t3.childNodes)}for(;(r2=P.nextNode())!==null&&
d2.length<u2;){if(r2.nodeType===1){if(r2.hasAttributes())for(let t3 of r2.getAttributeNames())if(t3.endsWith(h)){let i3=v2[a2++],
s2=r2.getAttribute(t3).split(o),e3=/([.?@])?(.*)/.exec(i3);d2.push({type:1,index:l2,name:e3[2],strings:s2,ctor:e3[1]==="\
."?I:e3[1]==="?"?L:e3[1]==="@"?z:H}),r2.removeAttribute(t3)}else t3.startsWith(o)&&(d2.push({type:6,index:l2}),r2.removeAttribute(
t3));if(y.test(r2.tagName)){let t3=r2.textContent.split(o),i3=t3.length-1;if(i3>0){r2.textContent=s?s.emptyScript:"";for(let s2=0;s2<
i3;s2++)r2.append(t3[s2],c()),P.nextNode(),d2.push({type:2,index:++l2});r2.append(t3[i3],c())}}}else if(r2.nodeType===8)
if(r2.data===n)d2.push({type:2,index:l2});else{let t3=-1;for(;(t3=r2.data.indexOf(o,t3+1))!==-1;)d2.push({type:7,index:l2}),
t3+=o.length-1}l2++}}static createElement(t2,i2){let s2=l.createElement("template");return s2.innerHTML=t2,s2}};function M(t2,i2,s2=t2,e2){
if(i2===E)return i2;let h2=e2!==void 0?s2._$Co?.[e2]:s2._$Cl,o2=a(i2)?void 0:i2._$litDirective$;return h2?.constructor!==
o2&&(h2?._$AO?.(!1),o2===void 0?h2=void 0:(h2=new o2(t2),h2._$AT(t2,s2,e2)),e2!==void 0?(s2._$Co??=[])[e2]=h2:s2._$Cl=h2),
h2!==void 0&&(i2=M(t2,h2._$AS(t2,i2.values),h2,e2)),i2}var R=class{constructor(t2,i2){this._$AV=[],this._$AN=void 0,this.
_$AD=t2,this._$AM=i2}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t2){let{el:{content:i2},
parts:s2}=this._$AD,e2=(t2?.creationScope??l).importNode(i2,!0);P.currentNode=e2;let h2=P.nextNode(),o2=0,n2=0,r2=s2[0];
for(;r2!==void 0;){if(o2===r2.index){let i3;r2.type===2?i3=new k(h2,h2.nextSibling,this,t2):r2.type===1?i3=new r2.ctor(h2,
r2.name,r2.strings,this,t2):r2.type===6&&(i3=new Z(h2,this,t2)),this._$AV.push(i3),r2=s2[++n2]}o2!==r2?.index&&(h2=P.nextNode(),
o2++)}return P.currentNode=l,e2}p(t2){let i2=0;for(let s2 of this._$AV)s2!==void 0&&(s2.strings!==void 0?(s2._$AI(t2,s2,
i2),i2+=s2.strings.length-2):s2._$AI(t2[i2])),i2++}},k=class _k{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t2,i2,s2,e2){
this.type=2,this._$AH=A,this._$AN=void 0,this._$AA=t2,this._$AB=i2,this._$AM=s2,this.options=e2,this._$Cv=e2?.isConnected??
!0}get parentNode(){let t2=this._$AA.parentNode,i2=this._$AM;return i2!==void 0&&t2?.nodeType===11&&(t2=i2.parentNode),t2}get startNode(){
return this._$AA}get endNode(){return this._$AB}_$AI(t2,i2=this){t2=M(this,t2,i2),a(t2)?t2===A||t2==null||t2===""?(this.
_$AH!==A&&this._$AR(),this._$AH=A):t2!==this._$AH&&t2!==E&&this._(t2):t2._$litType$!==void 0?this.$(t2):t2.nodeType!==void 0?
this.T(t2):d(t2)?this.k(t2):this._(t2)}O(t2){return this._$AA.parentNode.insertBefore(t2,this._$AB)}T(t2){this._$AH!==t2&&
(this._$AR(),this._$AH=this.O(t2))}_(t2){this._$AH!==A&&a(this._$AH)?this._$AA.nextSibling.data=t2:this.T(l.createTextNode(
t2)),this._$AH=t2}$(t2){let{values:i2,_$litType$:s2}=t2,e2=typeof s2=="number"?this._$AC(t2):(s2.el===void 0&&(s2.el=S.createElement(
V(s2.h,s2.h[0]),this.options)),s2);if(this._$AH?._$AD===e2)this._$AH.p(i2);else{let t3=new R(e2,this),s3=t3.u(this.options);
t3.p(i2),this.T(s3),this._$AH=t3}}_$AC(t2){let i2=C.get(t2.strings);return i2===void 0&&C.set(t2.strings,i2=new S(t2)),i2}k(t2){
u(this._$AH)||(this._$AH=[],this._$AR());let i2=this._$AH,s2,e2=0;for(let h2 of t2)e2===i2.length?i2.push(s2=new _k(this.
O(c()),this.O(c()),this,this.options)):s2=i2[e2],s2._$AI(h2),e2++;e2<i2.length&&(this._$AR(s2&&s2._$AB.nextSibling,e2),i2.
length=e2)}_$AR(t2=this._$AA.nextSibling,s2){for(this._$AP?.(!1,!0,s2);t2!==this._$AB;){let s3=i(t2).nextSibling;i(t2).remove(),
t2=s3}}setConnected(t2){this._$AM===void 0&&(this._$Cv=t2,this._$AP?.(t2))}},H=class{get tagName(){return this.element.tagName}get _$AU(){
return this._$AM._$AU}constructor(t2,i2,s2,e2,h2){this.type=1,this._$AH=A,this._$AN=void 0,this.element=t2,this.name=i2,
this._$AM=e2,this.options=h2,s2.length>2||s2[0]!==""||s2[1]!==""?(this._$AH=Array(s2.length-1).fill(new String),this.strings=
s2):this._$AH=A}_$AI(t2,i2=this,s2,e2){let h2=this.strings,o2=!1;if(h2===void 0)t2=M(this,t2,i2,0),o2=!a(t2)||t2!==this.
_$AH&&t2!==E,o2&&(this._$AH=t2);else{let e3=t2,n2,r2;for(t2=h2[0],n2=0;n2<h2.length-1;n2++)r2=M(this,e3[s2+n2],i2,n2),r2===
E&&(r2=this._$AH[n2]),o2||=!a(r2)||r2!==this._$AH[n2],r2===A?t2=A:t2!==A&&(t2+=(r2??"")+h2[n2+1]),this._$AH[n2]=r2}o2&&!e2&&
this.j(t2)}j(t2){t2===A?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t2??"")}},I=class extends H{constructor(){
super(...arguments),this.type=3}j(t2){this.element[this.name]=t2===A?void 0:t2}},L=class extends H{constructor(){super(...arguments),
this.type=4}j(t2){this.element.toggleAttribute(this.name,!!t2&&t2!==A)}},z=class extends H{constructor(t2,i2,s2,e2,h2){super(
t2,i2,s2,e2,h2),this.type=5}_$AI(t2,i2=this){if((t2=M(this,t2,i2,0)??A)===E)return;let s2=this._$AH,e2=t2===A&&s2!==A||t2.
capture!==s2.capture||t2.once!==s2.once||t2.passive!==s2.passive,h2=t2!==A&&(s2===A||e2);e2&&this.element.removeEventListener(
this.name,this,s2),h2&&this.element.addEventListener(this.name,this,t2),this._$AH=t2}handleEvent(t2){typeof this._$AH=="\
function"?this._$AH.call(this.options?.host??this.element,t2):this._$AH.handleEvent(t2)}},Z=class{constructor(t2,i2,s2){
this.element=t2,this.type=6,this._$AN=void 0,this._$AM=i2,this.options=s2}get _$AU(){return this._$AM._$AU}_$AI(t2){M(this,
t2)}};var B=t.litHtmlPolyfillSupport;B?.(S,k),(t.litHtmlVersions??=[]).push("3.3.3");var D=(t2,i2,s2)=>{let e2=s2?.renderBefore??
i2,h2=e2._$litPart$;if(h2===void 0){let t3=s2?.renderBefore??null;e2._$litPart$=h2=new k(i2.insertBefore(c(),t3),t3,void 0,
s2??{})}return h2._$AI(t2),h2};function palette(place){let style=getComputedStyle(document.documentElement),of=name=>style.getPropertyValue(name).trim();
return{ink:of("--ink"),soft:of("--soft"),grid:of("--grid"),ground:of("--card"),error:of("--error"),of:path=>of(`--c${place(
path)%12}`)}}function rowOf([start,length,at,parts,missing,wait,left]){return{start,length,at,parts:parts.map(([offset,size,first2,last,
path,flags])=>({from:offset,to:offset+size,first:at+first2,last:at+last,path,backward:(flags&1)!==0,why:flags&2?"copy":flags&
4?"again":"new"})),missing:missing.map(([offset,size])=>[offset,offset+size]),wait:wait&&{from:wait[0],to:wait[0]+wait[1],
ms:wait[2]},left}}var Cloth=class{cut="fixed";every=1;leftOut=0;knownTo=null;gaps=[];last=-1/0;byStart=new Map;add({since,
cut,every,left_out,known_to,rows},now){since!==void 0&&since>this.last&&this.gaps.push([this.last,since]),this.last=Math.
max(this.last,now),this.gaps.length>64&&this.gaps.splice(0,2,[-1/0,this.gaps[1][1]]),cut!==this.cut&&this.byStart.clear(),
this.cut=cut,this.leftOut=left_out,this.knownTo=known_to,rows.length>0&&(this.every=every);for(let wire of rows){let row=rowOf(
wire);this.byStart.set(row.start,row)}let over=this.byStart.size-4e3;if(over>0)for(let row of this.rows().slice(0,over))
this.byStart.delete(row.start)}rows(){return[...this.byStart.values()].sort((a2,b2)=>a2.at-b2.at||a2.start-b2.start)}bytes(){
let sum=0;for(let row of this.byStart.values())sum+=row.length;return sum}},Weave=class{constructor(connection){this.connection=
connection}connection;over=!1;now=0;names={};sent=new Cloth;received=new Cloth;take(message){message.over&&(this.over=!0),
message.now!==void 0&&(this.now=message.now),message.names&&(this.names=message.names),message.sent&&this.sent.add(message.
sent,this.now),message.received&&this.received.add(message.received,this.now)}busier(){return this.received.bytes()>4*this.
sent.bytes()?"received":"sent"}name(path){return this.names[path]??`path ${path}`}};function repeated(row){return row.parts.reduce((sum,part)=>sum+(part.why==="new"?0:part.to-part.from),0)}function telling(rows){
let by=[row=>row.parts.reduce((sum,part)=>sum+(part.why==="again"?part.to-part.from:0),0),row=>row.wait?.ms??0,repeated];
for(let shows of by){let most=rows.reduce((best,row)=>shows(row)>(best?shows(best):0)?row:best,void 0);if(most)return most}
return rows[1]}function filled(row){return row.parts.reduce((last,part)=>part.why==="new"?Math.max(last,part.last):last,
row.at)}function choose(rows,from,to,slots){let chosen=new Array(slots).fill(void 0),slotOf=at=>Math.max(0,Math.min(slots-
1,Math.floor((to-at)/(to-from)*slots))),shows=row=>(row.wait?.ms??0)*1e12+repeated(row);for(let row of rows){if(row.at<from||
row.at>to)continue;let slot=slotOf(row.at),other=chosen[slot];(!other||shows(other)<shows(row))&&(chosen[slot]=row)}let begun=new Set(
chosen),going=[...chosen];for(let row of rows)if(!(row.at>to||filled(row)<from||row.at>=from&&!begun.has(row))){for(let part of row.
parts)if(!(part.why!=="new"||part.first>to||part.last<from))for(let slot=slotOf(Math.max(from,part.first));slot>=slotOf(
part.last);slot--)chosen[slot]||(going[slot]=row)}return going}function within(rows,from,to){return rows.filter(row=>row.
at<=to&&filled(row)>=from)}function eachOnce(slots){return[...new Set([...slots].reverse())].reverse().filter(row=>row!==
void 0)}function shares(rows){let bytes2=new Map,sum=0;for(let row of rows)for(let{path,from,to,why}of row.parts)why==="\
new"&&(bytes2.set(path,(bytes2.get(path)??0)+to-from),sum+=to-from);return new Map([...bytes2].sort((a2,b2)=>a2[0]-b2[0]).
map(([path,n2])=>[path,n2/sum]))}function number(value){if(value==null)return"–";let size=Math.abs(value),digits=size>=100||size===0?0:size>=10?1:2;return value.
toFixed(digits)}function bytes(value){return value==null?"–":value<1e4?`${Math.round(value)} B`:value<1e7?`${(value/1e3).toFixed(1)} k\
B`:value<1e10?`${(value/1e6).toFixed(1)} MB`:`${(value/1e9).toFixed(1)} GB`}function scrolled(label,table2){return b`<div class="scroll" role="region" tabindex="0" aria-label=${label}>${table2}</div>`}function begin(canvas,height){let scale=window.devicePixelRatio||1,width=Math.max(160,Math.floor(canvas.parentElement?.clientWidth??
160)),[wide,high]=[Math.round(width*scale),Math.round(height*scale)];canvas.width!==wide&&(canvas.width=wide),canvas.height!==
high&&(canvas.height=high),canvas.style.height=`${height}px`;let ctx=canvas.getContext("2d");return ctx.setTransform(scale,
0,0,scale,0,0),ctx.clearRect(0,0,width,height),ctx.font="11px system-ui, sans-serif",[ctx,width]}function stripes(ctx,x2,y2,w2,h2,slant,color){
ctx.save(),ctx.beginPath(),ctx.rect(x2,y2,w2,h2),ctx.clip(),ctx.strokeStyle=color,ctx.lineWidth=1.5,ctx.beginPath();for(let at=x2-
Math.abs(slant);at<x2+w2+Math.abs(slant);at+=4)ctx.moveTo(at,y2+h2),ctx.lineTo(at+slant,y2);ctx.stroke(),ctx.restore()}function drawPart(ctx,part,begins,place,palette2){
let[x2,y2,w2,h2]=place;ctx.fillStyle=palette2.of(part.path),ctx.fillRect(x2,y2,w2,h2),part.why==="copy"&&stripes(ctx,x2,
y2,w2,h2,h2,palette2.ground),part.why==="again"&&stripes(ctx,x2,y2,w2,h2,-h2,palette2.ink),part.why==="new"&&begins&&w2>=
20&&(ctx.fillStyle=palette2.ink,ctx.fillRect(part.backward?x2+w2-2:x2,y2,2,h2))}function isBegun(part,row){let goesOn=other=>other.
path===part.path&&other.why===part.why&&other.backward===part.backward&&(part.backward?other.from===part.to:other.to===part.
from);return!row.parts.some(goesOn)}function drawMissing(ctx,x2,y2,w2,h2,palette2){ctx.save(),ctx.globalAlpha=.65,ctx.fillStyle=
palette2.ground,ctx.fillRect(x2,y2,w2,h2),ctx.restore()}function drawWait(ctx,x2,y2,w2,h2,palette2){for(let[color,width]of[
[palette2.ground,4],[palette2.error,2]])ctx.strokeStyle=color,ctx.lineWidth=width,ctx.strokeRect(x2+1,y2,Math.max(2,w2-2),
h2)}function drawCloth(canvas,rows,shown2,selected,palette2){let[ctx,width]=begin(canvas,rows.length*6+4),scale=width-64-
6,outlined=[];for(let slot of ticks(rows.length,shown2))time(ctx,slot,rows.length,shown2,palette2);let unknown2=unknownSlots(
rows,shown2);for(let[from,to]of unknown2)unrecorded(ctx,from,to,scale,palette2);for(let slot=0,high=1;slot<rows.length;slot+=
high){let row=rows[slot],y2=slot*6+1;if(!row){if(high=1,unknown2.some(([from,to])=>from<=slot&&slot<to))continue;ctx.fillStyle=
palette2.grid,ctx.fillRect(64,y2+6/2,scale,1);continue}for(high=1;rows[slot+high]===row;)high++;let h2=high*6-1,x2=offset=>64+
Math.round(Math.max(0,Math.min(row.length,offset))/row.length*scale),wide=(from,to)=>Math.max(1,x2(to)-x2(from));for(let part of row.
parts)drawPart(ctx,part,row.parts.length<=10&&isBegun(part,row),[x2(part.from),y2,wide(part.from,part.to),h2],palette2);
for(let[from,to]of row.missing)drawMissing(ctx,x2(from),y2,wide(from,to),h2,palette2);let{wait}=row;wait&&outlined.push(
()=>drawWait(ctx,x2(wait.from),y2,wide(wait.from,wait.to),h2,palette2)),row===selected&&outlined.push(()=>{let middle=y2+
h2/2;ctx.fillStyle=palette2.ink,ctx.beginPath(),ctx.moveTo(57,middle-4),ctx.lineTo(63,middle),ctx.lineTo(57,middle+4),ctx.
fill()})}outlined.forEach(draw2=>draw2())}function unknownSlots(rows,{span,until,gaps}){let found=[];return rows.forEach(
(row,slot)=>{let at=until-(slot+.5)/rows.length*span;if(row||!gaps.some(([from,to])=>from<at&&at<to))return;let last=found.
at(-1);last?.[1]===slot?last[1]=slot+1:found.push([slot,slot+1])}),found}function unrecorded(ctx,from,to,scale,palette2){
let[y2,high]=[from*6+1,(to-from)*6];if(stripes(ctx,64,y2,scale,high,high,palette2.grid),high<18)return;let words2="not r\
ecorded";ctx.textAlign="center",ctx.textBaseline="middle";let wide=ctx.measureText(words2).width+12;ctx.fillStyle=palette2.
ground,ctx.fillRect(64+(scale-wide)/2,y2+high/2-8,wide,16),ctx.fillStyle=palette2.soft,ctx.fillText(words2,64+scale/2,y2+
high/2)}function ticks(slots,{span,until,isRun}){let step=[.25,.5,1,2,5,10,15,30,60].find(seconds=>span/1e6/seconds<=6)??
span/4e6,found=[0],first2=isRun?until/1e6%step:step,last=isRun?Math.min(span,until):span,end=last*slots/span;for(let ago=first2;ago*
1e6<last;ago+=step){let slot=ago*1e6*slots/span;slot>2.5&&slot<end-2.5&&found.push(slot)}return[...found,end]}function time(ctx,slot,slots,{
span,until,isRun},palette2){let ago=slot/slots*span,digits=span<8e6?2:1;ctx.fillStyle=palette2.soft,ctx.textAlign="right",
ctx.textBaseline=slot===0?"top":slot>slots-2.5?"bottom":"middle";let said=isRun?(Math.max(0,until-ago)/1e6).toFixed(digits):
`−${(ago/1e6).toFixed(digits)}`;ctx.fillText(slot===0&&!isRun?"newest":`${said} s`,54,slot*6+1)}function slotAt(y2,slots){
return Math.max(0,Math.min(slots-1,Math.floor((y2-1)/6)))}function strandTime(row){let last=Math.max(...row.parts.map(part=>part.
last),row.at),span=Math.min(2e6,Math.max(4e4,(last-row.at)*1.5)),from=row.at-Math.min(span*.25,4e4/2);return[from,from+span]}
function drawStrand(canvas,rows,around,palette2,isRun){let[ctx,width]=begin(canvas,190),[from,to]=strandTime(around),shown2=rows.
flatMap(row=>row.parts.filter(part=>part.last>=from&&part.first<=to).map(part=>({...part,from:row.start+part.from,to:row.
start+part.to}))),near=at=>Math.abs(at-around.start)<=8*around.length,parts=shown2.filter(part=>near(part.from)),least=Math.
min(around.start,...parts.map(part=>part.from)),most=Math.max(around.start+around.length,...parts.map(part=>part.to)),[top,
bottom]=[8,168],x2=time2=>64+(time2-from)/(to-from)*(width-64-6),y2=offset=>bottom-(offset-least)/(most-least)*(bottom-top);
ctx.fillStyle=palette2.grid;let high=y2(around.start)-y2(around.start+around.length);ctx.fillRect(64,y2(around.start+around.
length),width-64-6,Math.max(1,high)),ctx.save(),ctx.beginPath(),ctx.rect(64,0,width-64-6,bottom+2),ctx.clip(),ctx.lineCap=
"round";for(let part of parts){let[begins,ends]=part.backward?[part.to,part.from]:[part.from,part.to];ctx.strokeStyle=palette2.
of(part.path),ctx.lineWidth=part.why==="new"?2.5:2,ctx.setLineDash(part.why==="new"?[]:part.why==="copy"?[2,4]:[6,3]),ctx.
beginPath(),ctx.moveTo(x2(part.first),y2(begins)),ctx.lineTo(Math.max(x2(part.last),x2(part.first)+1),y2(ends)),ctx.stroke()}
ctx.restore(),ctx.fillStyle=palette2.soft,ctx.textBaseline="bottom",ctx.textAlign="left";let said=at=>isRun?`${(Math.max(
0,at)/1e6).toFixed(2)} s`:`${((at-from)/1e3).toFixed(0)} ms`;ctx.fillText(said(from),64,188),ctx.textAlign="right",ctx.fillText(
said(to),width-6,188),ctx.textBaseline="top",ctx.fillText("stream ↑",56,top)}var SPANS=[[2,"2 s"],[10,"10 s"],[60,"1 min"]];function shownAtFirst(){return{span:SPANS[1][0],direction:null,row:null,until:null,
table:!1}}function scene(weave2,shown2,isRun){let direction=shown2.direction??weave2.busier(),cloth=weave2[direction],all=cloth.
rows(),until=shown2.until??weave2.now,from=until-shown2.span*1e6,[slots,told]=[choose(all,from,until,64),within(all,from,
until)],rows=eachOnce(slots),shows=isRun?telling(rows):rows.find(row=>row.wait!==null||repeated(row)>0),selected=rows.find(
row=>row.start===shown2.row)??shows??rows[0];return{cloth,direction,all,slots,rows,told,selected,until,isRun,slot:shown2.
span*1e6/64}}function paint(weave2,shown2,palette2,isRun){let{direction,slots,all,selected,until}=scene(weave2,shown2,isRun),
time2={span:shown2.span*1e6,until,gaps:weave2[direction].gaps,isRun},of=id=>document.querySelector(`#${id}`),[cloth,strand]=[
of("cloth"),of("strand")];cloth&&drawCloth(cloth,slots,time2,selected,palette2),strand&&selected&&drawStrand(strand,all,
selected,palette2,isRun);for(let key of document.querySelectorAll("canvas[data-key]"))drawKey(key,palette2)}function drawKey(canvas,palette2){
let scale=window.devicePixelRatio||1,looks=`${canvas.dataset.key} ${palette2.of(Number(canvas.dataset.path))} ${palette2.
ink} ${scale}`;if(canvas.dataset.looks===looks)return;canvas.dataset.looks=looks,[canvas.width,canvas.height]=[26*scale,
12*scale];let ctx=canvas.getContext("2d");ctx.setTransform(scale,0,0,scale,0,0);let path=Number(canvas.dataset.path??0),
place=[1,1,24,10],key=canvas.dataset.key;if(key==="none"){ctx.strokeStyle=palette2.grid,ctx.strokeRect(1.5,1.5,23,9);return}
key==="wait"?drawWait(ctx,...place,palette2):drawPart(ctx,{path,why:key==="copy"||key==="again"?key:"new",backward:key===
"backward"},!0,place,palette2),key==="missing"&&drawMissing(ctx,...place,palette2)}function view(weave2,shown2,change,isRecorded){
let now=scene(weave2,shown2,isRecorded),{direction,all,rows,selected}=now,first2=all[0]?.at??0,radio=(name,value,text,is,set)=>b`<label><input type="radio" name=${name} value=${value} .checked=${is} @change=${set} /><span>${text}</span></label>`,
spans=isRecorded?[...SPANS,[Math.max(1,Math.ceil((weave2.now-first2)/1e6)),"all"]]:SPANS;return b`<div class="controls">
<fieldset>
<legend class="unseen">Direction of the weave</legend>
${radio("weave-direction","sent","sent",direction==="sent",()=>change({direction:"sent",row:null}))}
${radio("weave-direction","received","received",direction==="received",()=>change({direction:"received",row:null}))}
</fieldset>
<fieldset>
<legend class="unseen">Time of the cloth</legend>
${spans.map(([seconds,name])=>radio("weave-span",name,name,shown2.span===seconds,()=>change({span:seconds,row:null})))}
</fieldset>
</div>
${rows.length===0?b`<p class="empty" id="weave-empty">${empty(weave2,shown2,now)}</p>`:A}
<div class="weave" ?hidden=${rows.length===0}>
${isRecorded?moment(now,shown2,first2,weave2.now,change):A}
<p class="caption" id="weave-caption">${caption(now)}${unknown(weave2,shown2,now)>0?" Grey stripes: it was not recorded.":
""}</p>
<div class="plot" role="img" aria-label=${words(weave2,now)}>
<canvas id="cloth" @pointerdown=${event=>point(event,now,change)}></canvas>
</div>
${legend(weave2,now)}
${slider(now,change)}
<p class="caption">The strand of that row: its bytes of the stream over time. What a path fills from the start rises, what it fills from the end falls; dashed: ${direction===
"sent"?"sent again, or a copy":"came a second time"}.</p>
<div class="plot" role="img" aria-label=${selected?strandWords(weave2,selected):"no row"}>
<canvas id="strand"></canvas>
</div>
<details @toggle=${event=>change({table:event.target.open})}>
<summary>Table<span class="unseen"> of the weave</span></summary>
${shown2.table?table(weave2,now):A}
</details>
${howToRead(direction)}
</div>`}function unknown(weave2,{span},{slots,until,direction}){return unknownSlots(slots,{span:span*1e6,until,gaps:weave2[direction].
gaps}).reduce((sum,[from,to])=>sum+to-from,0)}function empty(weave2,shown2,now){let known=now.slots.length-unknown(weave2,
shown2,now);if(known===0)return"Nothing is known of this time: it was not recorded.";let rest=known<now.slots.length?" a\
s far as it was recorded":"";return`Nothing was ${now.direction} in this time${rest}.`}function point(event,{slots},change){
let at=slotAt(event.offsetY,slots.length),row=slots.map((row2,slot)=>({row:row2,far:Math.abs(slot-at)})).sort((a2,b2)=>a2.
far-b2.far).find(one=>one.row)?.row;row&&change({row:row.start})}function caption(scene2){let{cloth,rows,told,slot}=scene2,
kinds={windows:"a window of the scheduler",inferred:"a window, as inferred from the direction in which it was filled",fixed:"\
a MiB of the stream"},every=cloth.every>1?` Of so many rows the page has one in ${cloth.every}; those that show somethin\
g come first.`:"",drawn=told.length>rows.length?`${rows.length} of ${told.length} rows are drawn`:`${rows.length} rows`,
lost=cloth.leftOut>0?` ${cloth.leftOut} stretches came and went between two looks.`:"",left=rows.reduce((sum,row)=>sum+row.
left,0),torn=left>0?` Too fine to be drawn: in these rows ${left} short parts are put together by path.`:"",known=cloth.
knownTo===null?"":` What has arrived beyond ${(cloth.knownTo/1e6).toFixed(2)} MB is not known: it came in too many piece\
s.`;return`The cloth: each row is ${kinds[cloth.cut]}, the newest on top (${drawn}). From left to right it goes from its\
 first byte to its last; its height is the time in which it was filled, in steps of ${duration(Math.round(slot/1e3))}.${waits(
scene2)}${every}${torn}${known}${lost}`}var when=({until,isRun},at)=>isRun?`at ${(at/1e6).toFixed(2)} s`:`${(Math.max(0,
until-at)/1e6).toFixed(1)} s before`;function waits(scene2){let all=scene2.told.filter(row=>row.wait).sort((a2,b2)=>(b2.
wait?.ms??0)-(a2.wait?.ms??0));if(all.length===0)return"";let longest=all.slice(0,3).map(row=>`${duration(row.wait?.ms??
0)} in the row ${when(scene2,row.at)}`);return` The reader waited within ${all.length===1?"one row":`${all.length} rows`}\
: ${longest.join(", ")}${all.length>3?", and less in others":""}.`}var duration=ms=>ms<1e3?`${ms} ms`:`${(ms/1e3).toFixed(
1)} s`;function slider({rows,selected,isRun},change){let at=selected?rows.indexOf(selected):0,move=event=>{let place=rows.
length-1-Number(event.target.value);change({row:rows[place]?.start??null})},wait=selected?.wait?`; the reader waited ${duration(
selected.wait.ms)}`:"",seconds=at2=>(at2/1e6).toFixed(2),times=selected&&isRun?`${seconds(selected.at)} to ${seconds(filled(
selected))} s, `:"",text=selected?`${times}at ${seconds(selected.start)} MB of the stream${wait}`:"none";return b`<div class="timeline">
<label for="weave-row">Row</label>
<input id="weave-row" type="range" min="0" max=${Math.max(0,rows.length-1)} .value=${String(rows.length-1-at)} aria-valuetext=${text} @input=${move} />
<output for="weave-row">${text}</output>
</div>`}function moment({until},{span},first2,last,change){let[least,most]=[Math.min(last,first2+span*1e6)/1e6,last/1e6];
if(least>=most)return b``;let move=event=>change({until:Number(event.target.value)*1e6,row:null}),text=`${(until/1e6).toFixed(
2)} s`;return b`<div class="timeline">
<label for="weave-until">Until</label>
<input id="weave-until" type="range" min=${least} max=${most} step="0.05" .value=${String(until/1e6)} aria-valuetext=${text} @input=${move} />
<output for="weave-until">${text}</output>
</div>`}function legend(weave2,{told,cloth,direction}){let key=(kind,text,path=0)=>b`<li><canvas data-key=${kind} data-path=${path} aria-hidden="true" width="26" height="12"></canvas> ${text}</li>`,
any=[...shares(told).keys()][0]??0,upwards=cloth.cut==="fixed"?A:key("backward","filled from its end: the edge is where \
that began",any);return b`<ul class="legend" id="weave-legend">
${[...shares(told)].map(([path,share])=>key("new",b`<strong>${weave2.name(path)}</strong> ${(share*100).toFixed(0)} %`,path))}
${upwards}
${direction==="sent"?b`${key("missing","faint: sent, and not known to have arrived",any)}
${key("again","stripes like \\: sent again, as the path that has it is slow or gone; drawn in its place in the stream",any)}
${key("copy","stripes like /: sent over two paths at once, to be safe",any)}`:b`${key("none","blank: has not arrived",any)}
${key("copy","stripes like /: came a second time",any)}`}
${key("wait","outlined: the reader waited for these bytes 50 ms or more; its length is bytes, not time")}
</ul>`}function howToRead(direction){return b`<details>
<summary>How to read it</summary>
<p>
Each colour is a path. Where two paths fill a row from both ends, they meet at a seam; it wanders
with their rates. The path that would deliver first begins on the left: where the colours change sides, that
was the other one from then on. A path that gets slow has less of each row, and rows get higher; one that is
gone has no part of them. A thin line means that nothing was ${direction} then.
${direction==="sent"?`A path that stalls leaves its part faint: the bytes are on their way and do not arrive. If they co\
me
before others that have arrived, the reader waits, and they are outlined. Then another path sends them
again: stripes like \\ on its own colour.`:`What a path that stalls was given is blank, until another path brings it: it\
 has then that path's colour,
and what comes a second time has stripes like /. If it comes before others that have arrived, the
reader waits, and it is outlined.`}
</p>
</details>`}var timeHead=isRun=>b`${isRun?"begun":"age"} <span class="unit">s</span>`,percent=(part,whole)=>`${(100*part/
whole).toFixed(0)} %`;function words(weave2,{rows,told,direction}){let of=[...shares(told)].map(([path,share])=>`${weave2.
name(path)} ${(share*100).toFixed(0)} %`).join(", "),again=rows.filter(row=>repeated(row)>0).length,waited=Math.max(0,...rows.
map(row=>row.wait?.ms??0)),wait=waited>0?`; the reader waited up to ${waited} ms`:"";return`Cloth of what was ${direction}\
: ${rows.length} rows; ${of}; ${again} with bytes sent again${wait}`}function strandWords(weave2,row){let[from,to]=strandTime(
row),of=[...shares([row])].map(([path,share])=>`${weave2.name(path)} ${(share*100).toFixed(0)} %`).join(", ");return`Str\
and: ${((to-from)/1e3).toFixed(0)} ms around the row at ${(row.start/1e6).toFixed(2)} MB: ${of}`}function table(weave2,{
rows,until,direction,isRun}){let paths=[...shares(rows).keys()],sum=(row,is)=>row.parts.filter(is).reduce((total,part)=>total+
part.to-part.from,0),line=row=>{let of=path=>{let own=row.parts.filter(part=>part.path===path&&part.why==="new");if(own.
length===0)return"–";let ways=`${own.some(part=>!part.backward)?"↑":""}${own.some(part=>part.backward)?"↓":""}`;return`${percent(
sum(row,part=>own.includes(part)),row.length)} ${ways}`},missing=row.missing.reduce((total,[from,to])=>total+to-from,0);
return b`<tr>
<th scope="row">${isRun?(row.at/1e6).toFixed(2):number((until-row.at)/1e6)}</th>
<td>${(row.start/1e6).toFixed(2)}</td>
<td>${bytes(row.length)}</td>
${paths.map(path=>b`<td>${of(path)}</td>`)}
<td>${percent(sum(row,part=>part.why==="copy"),row.length)}</td>
<td>${percent(sum(row,part=>part.why==="again"),row.length)}</td>
<td>${percent(missing,row.length)}</td>
<td>${row.wait?.ms??0}</td>
</tr>`};return scrolled("The weave, as a table",b`<table>
<caption>Rows of what was ${direction}, as drawn; ↑ filled from the start, ↓ from the end</caption>
<thead>
<tr>
<th scope="col">${timeHead(isRun)}</th>
<th scope="col">offset <span class="unit">MB</span></th>
<th scope="col">length</th>
${paths.map(path=>b`<th scope="col">${weave2.name(path)}</th>`)}
<th scope="col">copies</th>
<th scope="col">sent again</th>
<th scope="col">not arrived</th>
<th scope="col">waited <span class="unit">ms</span></th>
</tr>
</thead>
<tbody>${rows.map(line)}</tbody>
</table>`)}var data=JSON.parse(document.getElementById("data")?.textContent??"{}"),root=document.getElementById("app"),weave=new Weave(
null);weave.take(data);document.title=data.title;var first=weave.sent.rows()[0]?.at??0,shown={...shownAtFirst(),span:Math.
max(1,Math.ceil((weave.now-first)/1e6)),direction:"sent"};function draw(){let change=what=>{Object.assign(shown,what),draw()};
D(b`<header><h1>${data.title}</h1></header>
<main><section aria-label="The weave">${view(weave,shown,change,!0)}</section></main>`,root),paint(weave,shown,palette(path=>path),
!0)}matchMedia("(prefers-color-scheme: dark)").addEventListener("change",draw);window.addEventListener("resize",draw);draw();
